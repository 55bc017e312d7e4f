#!/bin/sh
# Tests the stores on servers with their traits, the command's URLs and Examples/Fleet: etcd and moto (S3) on loopback,
# which the tests start in temporary directories.
# Installs etcd where apt-get can, and moto with pip.
set -eu
cd "$(dirname "$0")/.."

if ! command -v etcd >/dev/null && command -v apt-get >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq etcd-server etcd-client curl openssl
fi
if ! python3 -c 'import moto.server' 2>/dev/null; then
    python3 -m pip install --quiet 'moto[s3,iam,server]==5.2.1' ||
        python3 -m pip install --quiet --break-system-packages 'moto[s3,iam,server]==5.2.1'
fi
python3 -c 'import moto.server' || { echo "check-servers: moto is not installed" >&2; exit 1; }
command -v etcd >/dev/null || { echo "check-servers: etcd is not installed" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
swift build --package-path ServerTests --build-tests
# One group after the other: the tests of leases and deadlines need a machine that is not full of copies.
for group in '^(HistoriesTests|ForgeEtcdTests)\.' '^ForgeS3Tests\.' '^(ForgeCommandsServerTests|FleetTests)\.'; do
    # The status of a pipe would hide that of the tests.
    swift test --package-path ServerTests --skip-build --filter "$group" >"$log" 2>&1 ||
        { grep -E -A 8 '✘|Fatal error' "$log" | cut -c1-1000 | tail -n 150; exit 1; }
    grep -E 'Test run with [1-9][0-9]* tests?' "$log"
done
