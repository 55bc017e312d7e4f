#!/bin/sh
# Loads files from a server with the API of S3 that fails at random, beside saves: whole, in ranges and as streams. No load may be
# torn, wrong or stale, and no upload may be left after the sweep. Prints the seed and what happened.
#
# usage: check-s3-faults.sh [LOADS] [SEED]
#
# LOADS is how many loads must succeed, by default 10000.
set -eu
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
swift build --package-path ServerTests --build-tests
FORGE_S3_FAULT_LOADS=${1:-10000}
export FORGE_S3_FAULT_LOADS
if [ $# -gt 1 ]; then export FORGE_S3_FAULT_SEED="$2"; fi
"$(swift build --package-path ServerTests --show-bin-path)/ServerTestsPackageTests.xctest" \
    --testing-library swift-testing --filter S3FaultRunTests >"$log" 2>&1 || { tail -n 50 "$log"; exit 1; }
grep '^faults of S3' "$log"
grep -E 'Test run with [1-9][0-9]* tests?' "$log"
