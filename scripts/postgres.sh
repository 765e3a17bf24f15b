# Sourced by test.sh: a private Postgres for the tests. Sets MILLRACE_TEST_DATABASE_URL.
# start_postgres makes and starts it; stop_postgres ends it and removes its files.

postgres_bin() {
    if [ -n "${MILLRACE_POSTGRES_BIN:-}" ]; then
        echo "$MILLRACE_POSTGRES_BIN"
    elif command -v initdb >/dev/null; then
        dirname "$(command -v initdb)"
    else
        ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin 2>/dev/null |
            sort -V | tail -n 1
    fi
}

# Postgres refuses to run as root.
as_postgres() {
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && runuser -u postgres -- "$@")
    else
        "$@"
    fi
}

start_postgres() {
    POSTGRES_BIN="$(postgres_bin)"
    POSTGRES_DIR="$(mktemp -d "${TMPDIR:-/tmp}/millrace-test-pg-XXXXXX")"
    chmod 700 "$POSTGRES_DIR"
    if [ "$(id -u)" -eq 0 ]; then
        chown postgres "$POSTGRES_DIR"
    fi
    as_postgres "$POSTGRES_BIN/initdb" -A trust --no-sync -E UTF8 --locale=C -U millrace \
        -D "$POSTGRES_DIR/data" >/dev/null
    # Reached through a socket in a directory that only its owner (and root) may enter.
    as_postgres "$POSTGRES_BIN/pg_ctl" -D "$POSTGRES_DIR/data" -w -s -l "$POSTGRES_DIR/log" \
        -o "-k $POSTGRES_DIR -c listen_addresses='' -c fsync=off -c max_connections=200" start
    export MILLRACE_TEST_DATABASE_URL="postgres:///postgres?host=${POSTGRES_DIR//\//%2F}&user=millrace"
}

stop_postgres() {
    if [ -n "${POSTGRES_DIR:-}" ]; then
        as_postgres "$POSTGRES_BIN/pg_ctl" -D "$POSTGRES_DIR/data" -m immediate -s stop || true
        rm -rf "$POSTGRES_DIR"
        POSTGRES_DIR=""
    fi
}
