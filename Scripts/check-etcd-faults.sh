#!/bin/sh
# Checks that the store in etcd is linearizable: clients call a cluster of three servers on loopback while these are killed,
# paused, separated, compacted, or have no space left. Every answer, every acknowledged write and every change that a watch
# reports is compared; planted stale reads, repeated and lost writes must be found. Prints a table; fails on a violation,
# on a history that was not decided, and on a planted defect that was not found.
#
# usage: check-etcd-faults.sh [RUNS] [OPERATIONS] [FAULT...]
#
# RUNS is for each fault, by default 3; OPERATIONS is the minimum for each run, by default 2000. The fault disk-full needs
# the right to mount (root on Linux). TMPDIR is where the servers store.
set -eu
cd "$(dirname "$0")/.."

command -v etcd >/dev/null || { echo "check-etcd-faults: etcd is not installed" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
swift build --package-path ServerTests --product etcd-faults
status=0
"$(swift build --package-path ServerTests --show-bin-path)/etcd-faults" "$@" 2>"$log" || status=$?
# The store notes every interrupted watch there.
test "$status" -eq 0 || grep -v 'a watch was interrupted' "$log" | tail -n 50 >&2
exit "$status"
