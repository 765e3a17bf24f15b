#!/usr/bin/env bash
# Puts the RocksDB archive where the workspace links it from (see env.sh). RocksDB is 300 C++
# files: built once here, outside of any cargo profile, instead of once per profile and clone.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/env.sh"

archive="$ROCKSDB_LIB_DIR/librocksdb.a"
if [ -s "$archive" ]; then
    exit 0
fi
if ! command -v clang++ >/dev/null; then
    echo "clang++ is missing: install clang (Debian, Ubuntu: apt-get install clang libclang-dev)" >&2
    exit 1
fi

mkdir -p "$ROCKSDB_LIB_DIR"
target="$MILLRACE_CACHE/rocksdb-target"
log="$MILLRACE_CACHE/rocksdb-build.log"
# Two invocations at once would compile everything twice.
exec 9>"$MILLRACE_CACHE/rocksdb.lock"
if ! flock -n 9; then
    echo "Another build of RocksDB is under way, waiting for it."
    flock 9
    [ -s "$archive" ] && exit 0
fi

echo "Building RocksDB, once for this machine: about 10 minutes on two cores. Log: $log"
started=$SECONDS
(
    unset ROCKSDB_LIB_DIR ROCKSDB_STATIC
    export PRECOMPILED="$MILLRACE_CACHE/rocksdb-headers"
    rm -rf "$PRECOMPILED" && mkdir -p "$PRECOMPILED"
    export CARGO_TARGET_DIR="$target" CC="${CC:-clang}" CXX="${CXX:-$here/rocksdb/cxx.sh}"
    cargo build --release --locked --manifest-path "$here/rocksdb/Cargo.toml"
) >"$log" 2>&1 &
build=$!

# The number of compiled files is the only progress the build shows.
while kill -0 "$build" 2>/dev/null; do
    for _ in 1 2 3 4 5 6; do
        sleep 5
        kill -0 "$build" 2>/dev/null || break
    done
    done_files=$(find "$target/release/build" -path '*librocksdb-sys-*' -name '*.o' 2>/dev/null | wc -l || true)
    printf '  RocksDB: %d of about 345 files after %d:%02d\n' \
        "$done_files" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
done
if ! wait "$build"; then
    tail -n 40 "$log" >&2
    echo "RocksDB did not build, the whole output is in $log" >&2
    exit 1
fi

built=$(find "$target/release/build" -path '*librocksdb-sys-*/out/librocksdb.a' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
if [ -z "$built" ]; then
    echo "the build left no librocksdb.a under $target/release/build" >&2
    exit 1
fi
# A rename, so that nobody ever links half an archive.
cp "$built" "$archive.partial"
mv "$archive.partial" "$archive"
echo "RocksDB is ready: $archive"
