#!/usr/bin/env bash
# Measures the Nexmark queries with a release build: a table on stdout, JSON in bench-results.json.
# Options go to the bench program: scripts/bench.sh --help.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/.."
. "$here/env.sh"

echo "Building the release binary: up to an hour the first time on two cores." >&2
cargo build --locked --release -p millrace -p millrace-bench
export MILLRACE_BIN="$CARGO_TARGET_DIR/release/millrace"
if [ $# -eq 0 ]; then
    set -- --json bench-results.json
fi
exec "$CARGO_TARGET_DIR/release/millrace-bench" "$@"
