-- What running jobs leave behind: executions, workers, checkpoints, savepoints, events.
-- Every row carries the tenant, and disappears with its job.

CREATE TABLE executions (
    tenant text NOT NULL REFERENCES tenants (name),
    job uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    version bigint NOT NULL,
    parallelism bigint NOT NULL,
    -- millrace_coordination::lifecycle::Restore.
    restored_from jsonb NOT NULL,
    -- Which worker runs which subtasks; known once deployed.
    placement jsonb,
    started_at timestamptz NOT NULL DEFAULT now(),
    running_at timestamptz,
    ended_at timestamptz,
    end_reason text
        CONSTRAINT executions_end_reason_known CHECK (end_reason IN
            ('finished', 'stopped', 'canceled', 'failed', 'replaced', 'suspended')),
    failure text,
    failed_operator text,
    failed_subtask bigint,
    PRIMARY KEY (job, id)
);

CREATE INDEX executions_by_start ON executions (job, started_at DESC);

CREATE TABLE workers (
    tenant text NOT NULL REFERENCES tenants (name),
    job uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id uuid PRIMARY KEY,
    state text NOT NULL DEFAULT 'starting'
        CONSTRAINT workers_state_known CHECK (state IN ('starting', 'registered', 'gone')),
    slots bigint NOT NULL,
    memory_mib bigint NOT NULL,
    pid bigint,
    address text,
    worker_version text,
    execution uuid,
    started_at timestamptz NOT NULL DEFAULT now(),
    registered_at timestamptz,
    last_seen_at timestamptz,
    gone_at timestamptz,
    gone_reason text
);

CREATE INDEX workers_by_job ON workers (job, started_at DESC);

CREATE TABLE checkpoints (
    tenant text NOT NULL REFERENCES tenants (name),
    job uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id bigint NOT NULL CHECK (id > 0),
    -- The savepoint that this barrier writes, if it is one.
    savepoint bigint,
    execution uuid NOT NULL,
    version bigint NOT NULL,
    status text NOT NULL DEFAULT 'in-progress'
        CONSTRAINT checkpoints_status_known CHECK (status IN ('in-progress', 'completed', 'failed', 'deleted')),
    -- The execution ends with this one.
    final boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    -- Object path of the manifest.
    manifest text,
    full_bytes bigint NOT NULL DEFAULT 0,
    uploaded_bytes bigint NOT NULL DEFAULT 0,
    alignment_ms bigint NOT NULL DEFAULT 0,
    pause_ms bigint NOT NULL DEFAULT 0,
    async_ms bigint NOT NULL DEFAULT 0,
    failure text,
    PRIMARY KEY (job, id)
);

CREATE TABLE savepoints (
    tenant text NOT NULL REFERENCES tenants (name),
    job uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id bigint NOT NULL CHECK (id > 0),
    status text NOT NULL DEFAULT 'in-progress'
        CONSTRAINT savepoints_status_known CHECK (status IN ('in-progress', 'completed', 'failed', 'deleted')),
    -- Who asked for it.
    origin text NOT NULL
        CONSTRAINT savepoints_origin_known CHECK (origin IN ('request', 'stop', 'upgrade')),
    checkpoint bigint,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    manifest text,
    full_bytes bigint NOT NULL DEFAULT 0,
    failure text,
    -- Deleted, but its objects are still there.
    purge boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job, id)
);

CREATE TABLE events (
    tenant text NOT NULL REFERENCES tenants (name),
    job uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    -- Numbered per job without gaps, so that a reader who asks for what came after n misses nothing.
    sequence bigint NOT NULL CHECK (sequence > 0),
    at timestamptz NOT NULL DEFAULT now(),
    severity text NOT NULL
        CONSTRAINT events_severity_known CHECK (severity IN ('info', 'warning', 'error')),
    kind text NOT NULL,
    message text NOT NULL,
    PRIMARY KEY (job, sequence)
);
