# Sourced by the scripts that install a server for the tests: what they need of the system.

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# Installs the named Debian packages; elsewhere says which ones are missing.
install_packages() {
    command -v apt-get >/dev/null ||
        fail "Missing: $* (the names that Debian gives them). Install them, then run this again."
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "Missing: $*. As root: apt-get install $*"
        as_root=(sudo)
    fi
    say "Installing $*"
    local log
    log="$(mktemp)"
    if ! {
        "${as_root[@]}" apt-get update &&
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
    } >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "The packages could not be installed; the whole output is in $log"
    fi
    rm -f "$log"
}

# A test holds the other end of its server's standard input: when the test's process dies, in
# whatever way, the pipe ends and so does the server. To be called right before the `exec` that
# turns this shell into the server.
die_with_the_test() {
    if [ -p /dev/stdin ]; then
        (
            read -r _ || true
            kill -KILL "$$"
        ) <&0 >/dev/null 2>&1 &
    fi
}
