#!/usr/bin/env bash
# A real Apache Kafka broker for tests: one node, KRaft, version in servers/kafka/pom.xml.
#
#   scripts/kafka.sh install               Java, Maven and Kafka's jars, once per machine
#   scripts/kafka.sh run DIR PORT          a broker on 127.0.0.1:PORT in the foreground; the next
#                                          port is its controller's. What it stores stays in DIR
#   scripts/kafka.sh tool CLASS [WORD…]    a tool of Kafka's, such as
#                                          org.apache.kafka.tools.TopicCommand
#
# SIGTERM stops a broker properly, SIGKILL is what tests do to it; `run` with the same directory
# and port goes on from what was stored. The port accepts connections only when the broker serves
# requests. On two cores a start takes 1.5 s, one after SIGKILL 3.5 s (2 s of that until the old
# session has ended); 310 MB resident.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/env.sh"
. "$here/servers/packages.sh"

descriptor="$here/servers/kafka/pom.xml"
version="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$descriptor")"
home="$MILLRACE_CACHE/kafka-$version"

usage() { fail "usage: scripts/kafka.sh install | run DIR PORT | tool CLASS [WORD…]"; }

# `java` with Kafka's jars and with what makes a short-lived process cheap. The classes that a
# start loads come from an archive; a Java that the archive is not for loads them from the jars.
java_command=(
    java -XX:+UseSerialGC -XX:TieredStopAtLevel=1
    -Xlog:cds=off -Xlog:cds+dynamic=off
    -Dorg.slf4j.simpleLogger.showDateTime=true
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
    -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info
)
broker_options=(-Xms128m -Xmx512m)

# write_config DIR PORT: DIR/server.properties.
write_config() {
    local client="127.0.0.1:$2" controller="127.0.0.1:$(($2 + 1))"
    {
        cat "$here/servers/kafka/server.properties"
        echo "listeners=CLIENT://$client,CONTROLLER://$controller"
        echo "advertised.listeners=CLIENT://$client"
        # Fixed voters, unlike a quorum that is stored, let a copy run on another port.
        echo "controller.quorum.voters=1@$controller"
        echo "log.dirs=$1/data"
    } >"$1/server.properties"
}

need_java() {
    local packages=()
    command -v java >/dev/null || packages+=(default-jre-headless)
    command -v mvn >/dev/null || packages+=(maven)
    command -v flock >/dev/null || packages+=(util-linux)
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
    local found
    found="$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)"
    [ "${found:-0}" -ge 17 ] || fail "Java is version ${found:-unknown}, Kafka $version needs 17 or newer."
}

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 10000))
        if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null &&
            ! (: <"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
}

# archive_classes HOME: starts the broker once, to archive the classes that it loads.
archive_classes() (
    dir="$(mktemp -d "${TMPDIR:-/tmp}/millrace-kafka-XXXXXX")"
    trap 'rm -rf "$dir"' EXIT
    port="$(free_port)"
    cp -R "$1/formatted" "$dir/data"
    write_config "$dir" "$port"
    "${java_command[@]}" "${broker_options[@]}" -XX:ArchiveClassesAtExit="$1/classes.jsa" \
        -cp "$1/libs/*" kafka.Kafka "$dir/server.properties" </dev/null >"$dir/log" 2>&1 &
    broker=$!
    for _ in $(seq 300); do
        if ! kill -0 "$broker" 2>/dev/null || (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            break
        fi
        sleep 0.2
    done
    kill "$broker" 2>/dev/null || true
    wait "$broker" || true
    if [ ! -s "$1/classes.jsa" ]; then
        tail -n 30 "$dir/log" >&2
        fail "Kafka $version does not start on port $port; the end of its log is above."
    fi
)

install() {
    if cmp -s "$descriptor" "$home/pom.xml" && command -v java >/dev/null; then
        return
    fi
    need_java
    mkdir -p "$MILLRACE_CACHE"
    exec 9>"$MILLRACE_CACHE/kafka.lock"
    flock 9
    if cmp -s "$descriptor" "$home/pom.xml"; then
        return
    fi
    say "Fetching Kafka $version"
    rm -rf "$home"
    mkdir -p "$home"
    local log="$MILLRACE_CACHE/kafka-install.log"
    if ! mvn -B -f "$descriptor" dependency:copy-dependencies -DoutputDirectory="$home/libs" \
        </dev/null >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "Kafka's jars could not be fetched; the whole output is in $log"
    fi
    # An empty log directory, made once: every test's broker starts with a copy, under one
    # cluster id, since brokers of different tests never meet.
    mkdir "$home/format"
    write_config "$home/format" 9092
    if ! "${java_command[@]}" -cp "$home/libs/*" kafka.tools.StorageTool format \
        --config "$home/format/server.properties" --cluster-id millraceTestsKafka0000 >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "Kafka's storage tool failed; the whole output is in $log"
    fi
    mv "$home/format/data" "$home/formatted"
    rm -rf "$home/format"
    archive_classes "$home"
    # Last, as the mark that all the rest is there.
    cp "$descriptor" "$home/pom.xml"
    say "Kafka $version is ready: $home"
}

need_installed() {
    cmp -s "$descriptor" "$home/pom.xml" || fail "Kafka $version is not installed: scripts/kafka.sh install"
}

run() {
    need_installed
    local port="$2" directory
    mkdir -p "$1"
    directory="$(cd "$1" && pwd)"
    if [ ! -e "$directory/data" ]; then
        # A rename, so that a kill never leaves half a directory.
        rm -rf "$directory/data.partial"
        cp -R "$home/formatted" "$directory/data.partial"
        mv "$directory/data.partial" "$directory/data"
    fi
    write_config "$directory" "$port"
    die_with_the_test
    exec "${java_command[@]}" "${broker_options[@]}" -XX:SharedArchiveFile="$home/classes.jsa" \
        -cp "$home/libs/*" kafka.Kafka "$directory/server.properties" </dev/null
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
tool)
    [ $# -ge 2 ] || usage
    need_installed
    shift
    exec "${java_command[@]}" -XX:SharedArchiveFile="$home/classes.jsa" -cp "$home/libs/*" "$@"
    ;;
*) usage ;;
esac
