#!/usr/bin/env bash
# Checks the licence of every dependency, and that no banned crate came in, against deny.toml.
# With cargo-deny installed, cargo-deny does it.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/.."
. "$here/env.sh"

if cargo deny --version >/dev/null 2>&1; then
    exec cargo deny --offline check licenses bans sources
fi

# The texts of one array of deny.toml: list SECTION KEY.
list() {
    awk -v section="[$1]" -v key="$2" '
        /^\[/ { inside = ($0 == section) }
        inside && $0 ~ "^" key " *=" { on = 1 }
        on { line = $0; sub(/#.*/, "", line); while (match(line, /"[^"]*"/)) {
                print substr(line, RSTART + 1, RLENGTH - 2); line = substr(line, RSTART + RLENGTH) } }
        on && /\]/ { on = 0 }
    ' deny.toml
}

bad=0
allowed="$(list licenses allow)"
while IFS='|' read -r package licence; do
    # Every part joined by AND needs one alternative that is allowed.
    while IFS= read -r part; do
        ok=0
        while IFS= read -r alternative; do
            alternative="$(tr -d '() ' <<<"$alternative")"
            if grep -qxF "$alternative" <<<"$allowed"; then ok=1; fi
        done < <(sed 's/ OR /\n/g; s/\//\n/g; s/ WITH /-WITH-/g' <<<"$part")
        if [ "$ok" -eq 0 ]; then
            echo "$package: licence \`$licence\` is not in deny.toml's allow list" >&2
            bad=1
        fi
    done < <(sed 's/ AND /\n/g' <<<"$licence")
done < <(cargo tree --locked --workspace --all-features --target all --edges normal,build \
    --prefix none --format '{p}|{l}' | sed 's/ (\*)$//; s/ ([^|]*)|/|/' | sort -u | grep -v -e '^millrace' -e '^$')

# Banned crates, each with the crates (between spaces) that may depend on it all the same.
while IFS='|' read -r banned wrappers; do
    if ! grep -qx "name = \"$banned\"" Cargo.lock; then
        continue
    fi
    while IFS= read -r dependent; do
        if ! grep -qF " $dependent " <<<" $wrappers "; then
            echo "$banned is banned by deny.toml, but $dependent depends on it" >&2
            bad=1
        fi
    done < <(cargo tree --locked --workspace --all-features --target all --edges normal,build \
        --invert "$banned" --depth 1 --prefix none --format '{p}' | tail -n +2 | cut -d' ' -f1 | sort -u)
done < <(sed -n '/^\[bans\]/,/^\[/p' deny.toml |
    sed -n 's/.*crate = "\([^"]*\)"\(.*\)/\1|\2/p' |
    sed 's/|.*wrappers = \[\(.*\)\].*/|\1/; s/|[^"]*$/|/; s/[",]/ /g; s/  */ /g')

if [ "$bad" -eq 0 ]; then
    echo "licences and banned crates: fine"
fi
exit "$bad"
