#!/usr/bin/env bash
# Everything CI runs: format, lints, every test against real servers, licences.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/.."
. "$here/env.sh"
. "$here/postgres.sh"

step() { printf '\n== %s (after %d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

step "setup"
scripts/setup.sh
step "format"
cargo fmt --all --check
step "lints"
cargo clippy --locked --workspace --all-targets -- -D warnings
step "build"
cargo build --locked --workspace
step "tests"
trap stop_postgres EXIT
start_postgres
# The whole-product tests run this binary.
export MILLRACE_BIN="$CARGO_TARGET_DIR/debug/millrace"
cargo test --locked --workspace
step "licences"
scripts/licences.sh
step "all passed"
