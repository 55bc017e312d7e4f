#!/bin/sh
# Stresses every key-value store and a file store in a release build, as an app has it: threads read, write, remove,
# compact, open and close, 2,000 tasks save, load and delete files, and everything read is compared with what was written.
# Fails on a crash, a wrong value, a call that does not end, a leak of descriptors or a sanitizer's report.
#
# usage: check-stress.sh [plain|denied|thread|address|all [SECONDS]]
#
# SECONDS is for each store; 20 by default. `plain` also writes, compacts and reads values of every built-in type, and
# counts: no increment of a setting may be lost. `denied` is plain with membarrier(2) failing after two seconds (Linux).
set -eu
cd "$(dirname "$0")/.."

which=${1:-plain}
seconds=${2:-20}

# stress NAME OPTION...: in a build directory of its own for each sanitizer.
stress() {
    name=$1
    shift
    swift build -c release --package-path Stress --scratch-path "Stress/.build-$name" "$@"
    directory=$(swift build -c release --package-path Stress --scratch-path "Stress/.build-$name" "$@" --show-bin-path)
    status=0
    LD_PRELOAD=${preload:-} "$directory/stress" ${deny:-} --seconds "$seconds" >"Stress/.build-$name/log" 2>&1 || status=$?
    LD_PRELOAD=${preload:-} "$directory/stress" files 2000 "$seconds" >>"Stress/.build-$name/log" 2>&1 || status=$?
    grep -E 'values$|SUMMARY: ' "Stress/.build-$name/log" || true
    if test "$status" -ne 0 || grep -q 'SUMMARY: .*Sanitizer' "Stress/.build-$name/log"; then
        echo "check-stress: $name: see Stress/.build-$name/log" >&2
        exit 1
    fi
    echo "check-stress: $name: clean"
}

plain() {
    preload= deny= stress plain
    "$directory/stress" values
    "$directory/stress" count 100000
}

denied() { preload= deny=--deny-membarrier stress plain; }

thread() {
    preload=
    if test "$(uname)" = Linux; then
        mkdir -p Stress/.build-thread
        preload=$PWD/Stress/.build-thread/tsan-mutex.so
        clang -O1 -shared -fPIC -o "$preload" Scripts/tsan-mutex.c -ldl
    fi
    deny=
    stress thread --sanitize=thread
}

address() {
    preload= deny=
    # What the runtime keeps for good is no leak.
    ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}" && export ASAN_OPTIONS
    stress address --sanitize=address
}

case $which in
plain) plain ;;
denied) denied ;;
thread) thread ;;
address) address ;;
all) plain && if test "$(uname)" = Linux; then denied; fi && thread && address ;;
*) sed -n 6p "$0" >&2 && exit 2 ;;
esac
