#!/bin/sh
# Runs the tests of the libraries under the thread and address sanitizers, each in a build directory of its own.
#
# usage: check-sanitizers.sh [thread|address|both [FILTER]]
#
# ForgeCommandsTests and KillTests are left out: what they test runs in processes of its own.
set -eu
cd "$(dirname "$0")/.."

which=${1:-both}
filter=${2:-'^(ForgeFileSystem|ForgeCoding|ForgeKVStore|ForgeFileStore|ForgeCrypt|ForgeStorage|ForgeStorageTesting|ForgeCrashTesting)Tests\.'}

# check NAME DIRECTORY OPTION...: any report fails the check, even where the tests pass.
check() {
    name=$1
    directory=$2
    shift 2
    swift build --build-tests --sanitize="$name" --scratch-path ".build/$directory"
    status=0
    LD_PRELOAD=${preload:-} swift test --skip-build --sanitize="$name" --scratch-path ".build/$directory" \
        --filter "$filter" "$@" >".build/$directory/log" 2>&1 || status=$?
    grep -E '^✘|SUMMARY: |Test run with' ".build/$directory/log" || true
    if test "$status" -ne 0 || grep -q 'SUMMARY: .*Sanitizer' ".build/$directory/log"; then
        echo "check-sanitizers: $name: see .build/$directory/log" >&2
        exit 1
    fi
    echo "check-sanitizers: $name: clean"
}

thread() {
    preload=
    if test "$(uname)" = Linux; then
        preload=$PWD/.build/tsan-mutex.so
        mkdir -p .build
        clang -O1 -shared -fPIC -o "$preload" Scripts/tsan-mutex.c -ldl
    fi
    check thread tsan
}

address() {
    preload=
    # The test bundle of XCTest does not load under this one. What the runtime keeps for good is no leak.
    ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}" && export ASAN_OPTIONS
    check address asan --disable-xctest
}

case $which in
thread) thread ;;
address) address ;;
both) thread && address ;;
*) sed -n 4p "$0" >&2 && exit 2 ;;
esac
