# Sourced by the scripts and the Makefile: where built things are kept between runs.
# Everything lives under one cache folder outside the checkout, so that a fresh clone
# builds only the workspace's own crates.
export MILLRACE_CACHE="${MILLRACE_CACHE:-$HOME/.cache/millrace}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$MILLRACE_CACHE/target}"
# One RocksDB archive for every cargo profile (see rocksdb.sh).
export ROCKSDB_LIB_DIR="$MILLRACE_CACHE/rocksdb-0.19.0"
export ROCKSDB_STATIC=1
