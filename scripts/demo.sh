#!/usr/bin/env bash
# The demo: builds Millrace, starts the service, runs the flights job on a month of real flights,
# prints its rows as they come, and stays up until Ctrl-C (or for DEMO_SECONDS, then ends with 0).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/.."
. "$here/env.sh"

dir="${DEMO_DIR:-$PWD/.demo}"
listen="${DEMO_LISTEN:-127.0.0.1:7090}"
log="$dir/up.log"

say() { printf '\n%s\n' "$*"; }
fail() {
    say "$1" >&2
    if [ -s "$log" ]; then
        printf 'The end of %s:\n' "$log" >&2
        tail -n 25 "$log" >&2
    fi
    exit 1
}

scripts/setup.sh
say "Building Millrace: about 20 minutes the first time on two cores, seconds later."
cargo build --locked -p millrace
millrace="$CARGO_TARGET_DIR/debug/millrace"

mkdir -p "$dir"
: >"$log"
# A port that is taken is no reason to fail: take a free one.
if (exec 3<>"/dev/tcp/${listen%:*}/${listen##*:}") 2>/dev/null; then
    say "Something else listens on $listen, so the demo takes a free port."
    listen="${listen%:*}:0"
fi

service=""
rows=""
stop() {
    trap - EXIT INT TERM
    for pid in $rows $service; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    [ -n "$service" ] && wait "$service" 2>/dev/null
    exit "${1:-0}"
}
trap 'stop $?' EXIT
trap 'say "Stopping."; stop 0' INT TERM

say "Starting the service; its data and log are in $dir"
"$millrace" up --data-dir "$dir/data" --listen "$listen" >"$dir/address" 2>>"$log" &
service=$!
for _ in $(seq 1 600); do
    [ -s "$dir/address" ] && break
    kill -0 "$service" 2>/dev/null || { service=""; fail "The service ended at once."; }
    sleep 0.1
done
url="$(sed -n 's/^Millrace listens on //p' "$dir/address")"
[ -n "$url" ] || fail "The service did not become ready within a minute."
export MILLRACE_SERVER="$url"
say "Millrace listens on $url"

# The job is there already when the demo runs again in the same directory.
if ! "$millrace" jobs get flights >/dev/null 2>&1; then
    say "Creating the job flights from examples/flights.sql"
    "$millrace" jobs create examples/flights.sql || fail "The job could not be created."
else
    state="$("$millrace" jobs get flights --output json | sed -n 's/^  "state": "\(.*\)",/\1/p')"
    case "$state" in
    starting | running | restarting | upgrading | rescaling)
        say "The job flights is $state from an earlier demo."
        ;;
    *)
        say "The job flights is $state from an earlier demo: starting it from the beginning."
        "$millrace" jobs start flights --empty || fail "The job could not be started."
        ;;
    esac
fi

say "Departures of each hour and airport, as their windows close:"
"$millrace" jobs output flights --output table &
rows=$!

more() {
    say "The service stays up until Ctrl-C. In another terminal, try:
  export MILLRACE_SERVER=$url
  $millrace jobs list
  $millrace jobs metrics flights
  $millrace jobs events flights
  $millrace checkpoints list flights
  curl $url/api/v1/tenants/default/jobs/flights"
}

if [ -n "${DEMO_SECONDS:-}" ]; then
    deadline=$((SECONDS + DEMO_SECONDS))
    while [ "$SECONDS" -lt "$deadline" ]; do
        kill -0 "$service" 2>/dev/null || { service=""; fail "The service ended."; }
        sleep 0.2
    done
    state="$("$millrace" jobs get flights --output json | sed -n 's/^  "state": "\(.*\)",/\1/p')"
    say "The job flights is $state; $DEMO_SECONDS s are over."
    [ "$state" != failed ] || fail "The job failed."
    stop 0
fi
wait "$rows" || fail "The rows could not be read."
rows=""
more
wait "$service" || fail "The service ended."
