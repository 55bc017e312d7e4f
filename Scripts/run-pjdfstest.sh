#!/bin/sh
# Runs pjdfstest on InMemoryFileSystem, with a built checkout of it that lies anywhere outside this repository:
#
#     Scripts/run-pjdfstest.sh MODE SUITE_DIRECTORY [TEST...]
#
# MODE is how the suite reaches the file system:
#     calls   through `forge-lab call` in place of the suite's own helper: paths are walked by InMemoryFileSystem
#     mount   with the suite's own helper on `forge-lab mount`: paths are walked by the kernel. 15 tests of open/06.t
#             fail: they open FIFOs without permission, and the kernel asks no server before it opens one
#     checked as `mount`, but the kernel checks permissions too (`--kernel-permissions`), those of FIFOs as well
#     system  with the suite's own helper on the disk, in a temporary directory, to compare with
#
# TEST is a path in the suite's `tests` directory, such as `rename` or `rename/09.t`; all of them if none is given.
# Most of its time goes into waiting for the next second; JOBS (8) files run at a time.
#
# The suite is neither built nor changed. Takes root, and /dev/fuse but for `system`. Ends with 1 if a test failed.
set -eu

mode=${1:-}
suite=${2:-}
case $mode in
calls | mount | checked | system) shift ;;
*)
    echo "usage: $0 calls|mount|checked|system SUITE_DIRECTORY [TEST...]" >&2
    exit 64
    ;;
esac
if [ -z "$suite" ]; then
    echo "pjdfstest: not given"
    exit 0
fi
shift
suite=$(cd "$suite" && pwd)
for needed in "$suite/tests/misc.sh" "$suite/pjdfstest"; do
    test -e "$needed" || { echo "pjdfstest: not built: $needed is missing" >&2; exit 66; }
done
test "$(id -u)" = 0 || { echo "pjdfstest: not run: takes root" >&2; exit 69; }

cd "$(dirname "$0")/.."
lab=$PWD/.build/debug/forge-lab
test -x "$lab" || { echo "pjdfstest: not built: FORGE_LAB=1 swift build --product forge-lab" >&2; exit 66; }

# The suite finds its helper beside the directory of its tests.
scratch=$(mktemp -d)
chmod 755 "$scratch"
# A copy, so that a build meanwhile takes nothing away from under the tests.
cp "$lab" "$scratch/forge-lab"
lab=$scratch/forge-lab
mkdir "$scratch/place"
ln -s "$suite/tests" "$scratch/tests"
server=
finish() {
    status=$?
    trap - EXIT INT TERM
    cd /
    if [ -n "$server" ]; then
        "$lab" unmount "$scratch/place" || "$lab" unmount --lazy "$scratch/place" || kill "$server" || true
        wait "$server" || true
    fi
    rm -rf "$scratch"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ "$mode" = system ]; then
    ln "$suite/pjdfstest" "$scratch/pjdfstest" 2>/dev/null || cp "$suite/pjdfstest" "$scratch/pjdfstest"
else
    test -c /dev/fuse || { echo "pjdfstest: not run: no /dev/fuse here" >&2; exit 69; }
    mkfifo "$scratch/ready"
    options=
    if [ "$mode" = checked ]; then options=--kernel-permissions; fi
    # shellcheck disable=SC2086
    "$lab" mount "$scratch/place" $options --socket "$scratch/socket" >"$scratch/ready" &
    server=$!
    read -r line <"$scratch/ready"
    echo "pjdfstest: $mode: $line"
    if [ "$mode" = calls ]; then
        # The directories that the tests enter lie in the same tree, mounted; every call of the helper goes to the socket.
        printf '#!/bin/sh\nexec "%s" call --socket "%s" --mount "%s" -- "$@"\n' \
            "$lab" "$scratch/socket" "$scratch/place" >"$scratch/pjdfstest"
        chmod 755 "$scratch/pjdfstest"
    else
        cp "$suite/pjdfstest" "$scratch/pjdfstest"
    fi
fi

if [ $# = 0 ]; then set -- .; fi
tests=
for test; do tests="$tests $scratch/tests/$test"; done
cd "$scratch/place"
# `prove` prints each failed file with the numbers of its failed tests.
prove --recurse --jobs "${JOBS:-8}" $tests
