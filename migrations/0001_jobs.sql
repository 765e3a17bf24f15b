-- Tenants, jobs and their versions. Desired state (what the owner asked for) and observed
-- state (what the driver made of it) stand in separate columns and are written by separate
-- parties: the API writes the former and raises `revision`; the driver that holds the lease
-- writes the latter, fenced by `lease_epoch`.

CREATE TABLE tenants (
    name text PRIMARY KEY CHECK (name ~ '^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO tenants (name) VALUES ('default');

CREATE TABLE jobs (
    id uuid PRIMARY KEY,
    tenant text NOT NULL REFERENCES tenants (name),
    name text NOT NULL CHECK (name ~ '^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),

    -- Desired.
    revision bigint NOT NULL DEFAULT 1,
    version bigint NOT NULL DEFAULT 1,
    last_version bigint NOT NULL DEFAULT 1,
    desired_state text NOT NULL
        CONSTRAINT jobs_desired_state_known CHECK (desired_state IN ('running', 'stopped', 'canceled', 'deleted')),
    stop_mode text
        CONSTRAINT jobs_stop_mode_known CHECK (stop_mode IN ('savepoint', 'drain', 'now')),
    start_from jsonb NOT NULL DEFAULT '"latest"',
    -- Counts the start, stop, cancel and delete requests, so that the driver can tell a new request
    -- from one it has taken in.
    command bigint NOT NULL,

    -- Observed.
    state text NOT NULL DEFAULT 'created'
        CONSTRAINT jobs_state_known CHECK (state IN
            ('created', 'starting', 'running', 'restarting', 'rescaling', 'upgrading',
             'stopping', 'stopped', 'finished', 'failed', 'canceled')),
    condition text NOT NULL DEFAULT 'healthy'
        CONSTRAINT jobs_condition_known CHECK (condition IN ('healthy', 'degraded')),
    condition_reason text,
    condition_cause text,
    -- Why the newest execution that failed did.
    failure text,
    failures bigint NOT NULL DEFAULT 0,
    execution uuid,
    running_version bigint,
    observed_at timestamptz NOT NULL DEFAULT now(),
    observed_revision bigint NOT NULL DEFAULT 0,
    observed_command bigint NOT NULL DEFAULT 0,
    -- The lifecycle core (millrace_coordination::lifecycle::Job) as JSON, version-tagged.
    core jsonb,
    -- Counts the steps of the core, so that a commit whose answer was lost is not made twice.
    step bigint NOT NULL DEFAULT 0,

    -- Counters that outlive the rows they number.
    last_checkpoint bigint NOT NULL DEFAULT 0,
    last_savepoint bigint NOT NULL DEFAULT 0,
    last_event bigint NOT NULL DEFAULT 0,

    -- Work for the driver besides the lifecycle: savepoints to take or to delete.
    errands boolean NOT NULL DEFAULT false,

    -- Lease. The epoch grows with every take-over and fences every write of the driver.
    lease_owner text,
    lease_incarnation uuid,
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,

    -- What people see: a request that no driver has taken in yet shows at once.
    shown_state text NOT NULL GENERATED ALWAYS AS (
        CASE
            WHEN command > observed_command AND desired_state = 'running'
                AND state IN ('created', 'stopped', 'finished', 'failed', 'canceled') THEN 'starting'
            WHEN command > observed_command AND desired_state <> 'running'
                AND state NOT IN ('created', 'stopped', 'finished', 'failed', 'canceled') THEN 'stopping'
            ELSE state
        END) STORED,
    needs_driver boolean NOT NULL GENERATED ALWAYS AS (
        errands OR revision > observed_revision
        OR state NOT IN ('created', 'stopped', 'finished', 'failed', 'canceled')) STORED,

    CONSTRAINT jobs_name_unique UNIQUE (tenant, name)
);

CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
CREATE INDEX jobs_by_lease ON jobs (lease_expires_at) WHERE needs_driver;

CREATE TABLE job_versions (
    tenant text NOT NULL REFERENCES tenants (name),
    job uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version bigint NOT NULL CHECK (version > 0),
    -- millrace_types::JobSpec.
    spec jsonb NOT NULL,
    fingerprint text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Why the version was given up, when it did not become healthy.
    rolled_back_reason text,
    PRIMARY KEY (job, version)
);

CREATE TABLE idempotency_keys (
    tenant text NOT NULL REFERENCES tenants (name),
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request_hash text NOT NULL,
    job uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
