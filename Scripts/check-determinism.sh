#!/usr/bin/env bash
# Plays one workload in many processes, in each with the hash seeds and addresses that it happens to get, and counts
# the different outputs: there must be one.
#
#     Scripts/check-determinism.sh [PROCESSES] [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."

processes=${1:-1000}
seed=${2:-1}

export FORGE_DEEP=1
swift build --product forge-lab >&2
tool=$(swift build --show-bin-path)/forge-lab
outputs=$(mktemp)
trap 'rm -f "$outputs"' EXIT

for _ in $(seq "$processes"); do
    "$tool" determinism --seed "$seed" >> "$outputs"
done

lines=$(wc -l < "$outputs")
distinct=$(sort -u "$outputs" | wc -l)
sort "$outputs" | uniq -c | sort -rn | head -5
echo "$lines of $processes processes, $distinct distinct outputs"
test "$lines" -eq "$processes" && test "$distinct" -eq 1
