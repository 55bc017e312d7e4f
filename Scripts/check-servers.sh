#!/bin/sh
# Tests the stores on servers with their traits: etcd on loopback, in temporary directories. Installs etcd where apt-get can.
set -eu
cd "$(dirname "$0")/.."

if ! command -v etcd >/dev/null && command -v apt-get >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq etcd-server etcd-client curl openssl
fi
command -v etcd >/dev/null || { echo "check-servers: etcd is not installed" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
swift build --package-path ServerTests --build-tests
# The last line's status would hide that of the tests.
swift test --package-path ServerTests --skip-build >"$log" 2>&1 || { tail -n 100 "$log"; exit 1; }
grep -E 'Test run with [1-9][0-9]* tests?' "$log"
