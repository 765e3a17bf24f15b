#!/usr/bin/env bash
# Installs what building and running Millrace needs and the machine lacks. On Debian and Ubuntu
# it does so by itself; elsewhere it says what to install. Quick when nothing is missing.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/env.sh"

say() { printf '%s\n' "$*" >&2; }

# Package on Debian and Ubuntu, and how to see that it is there.
missing=()
need() {
    local package="$1"
    shift
    if ! "$@" >/dev/null 2>&1; then
        missing+=("$package")
    fi
}
# Whether one of the files is there; patterns that match nothing stay as they are.
one_of() {
    local file
    for file in "$@"; do
        [ -e "$file" ] && return 0
    done
    return 1
}
has_postgres() {
    [ -n "${MILLRACE_POSTGRES_BIN:-}" ] || command -v initdb ||
        one_of /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
            /opt/homebrew/opt/postgresql*/bin/initdb /usr/local/pgsql/bin/initdb
}
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] ||
        one_of /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib64/libclang*.so* \
            /opt/homebrew/opt/llvm/lib/libclang*
}

need build-essential command -v cc
need build-essential command -v make
need pkg-config command -v pkg-config
need cmake command -v cmake
need clang command -v clang++
need libclang-dev has_libclang
need curl command -v curl
need postgresql has_postgres
need util-linux command -v flock
# For librdkafka. The headers of curl are only asked for: without them its build fails.
need libssl-dev one_of /usr/include/openssl/ssl.h /opt/homebrew/opt/openssl*/include/openssl/ssl.h
need zlib1g-dev one_of /usr/include/zlib.h /Library/Developer/CommandLineTools/SDKs/*/usr/include/zlib.h
need libcurl4-openssl-dev one_of /usr/include/*/curl/curl.h /usr/include/curl/curl.h \
    /Library/Developer/CommandLineTools/SDKs/*/usr/include/curl/curl.h
need ca-certificates test -e /etc/ssl/certs

if [ "${#missing[@]}" -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    if ! command -v apt-get >/dev/null; then
        say "Missing: ${missing[*]} (the names that Debian gives them)."
        say "Install a C and C++ compiler, clang with libclang, cmake, pkg-config, curl, flock and the"
        say "PostgreSQL server (13 or newer) with this system's package manager, then run this again."
        exit 1
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "Missing: ${missing[*]}. As root: apt-get install ${missing[*]}"
            exit 1
        fi
        as_root=(sudo)
    fi
    say "Installing ${missing[*]}"
    log="$(mktemp)"
    if ! {
        "${as_root[@]}" apt-get update &&
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
    } >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        say "The packages could not be installed; the whole output is in $log"
        exit 1
    fi
    rm -f "$log"
fi

wanted="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/../Cargo.toml")"
if ! command -v cargo >/dev/null; then
    say "Rust is missing: install Rust $wanted or newer with rustup, then run this again."
    exit 1
fi
found="$(rustc --version | cut -d' ' -f2)"
if [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" != "$wanted" ]; then
    say "Rust is $found, Millrace needs $wanted or newer: rustup update stable"
    exit 1
fi

"$here/rocksdb.sh" >&2
