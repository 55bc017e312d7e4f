#!/usr/bin/env bash
# Counts the instructions of `get` and `set` calls in a release build, as an app has it, and compares them with the
# baseline in Benchmarks/instructions-ARCHITECTURE.tsv. Fails if a kind of call takes 3 % more.
#
#     Scripts/check-instructions.sh             compare
#     Scripts/check-instructions.sh --update    write the baseline
#
# Counted by callgrind: instructions that the calling thread executes in user space, system calls excluded, in 10,000
# calls of each kind after all keys have been read and written. Threads that reserve space or compact are not counted.
# The median of three runs, since each store hashes names with a seed of its own. Valgrind passes membarrier(2) on, so
# readers take the path that they take outside; the script fails if it does not. It does not know openat2(2), which only
# opening a store uses.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
"" | --update) ;;
*) sed -n 5,6p "$0" >&2 && exit 2 ;;
esac
command -v valgrind >/dev/null || { echo "check-instructions: valgrind is not installed" >&2 && exit 1; }
baseline=Benchmarks/instructions-$(uname -m).tsv

swift build -c release --package-path Benchmarks --product instructions >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Valgrind cannot read all debug information that Swift emits; it needs the symbols only.
strip -g -o "$work/instructions" "$(swift build -c release --package-path Benchmarks --show-bin-path)/instructions"

processes=()
for run in 1 2 3; do
    mkdir "$work/$run"
    (
        cd "$work/$run"
        SWIFT_DETERMINISTIC_HASHING=1 valgrind --tool=callgrind --separate-threads=yes --dump-before=measuring_mark \
            --callgrind-out-file=count ../instructions stores >calls 2>messages || { tail -n 20 messages >&2 && exit 1; }
        if grep -Eq 'unhandled .*syscall: (324|283)$' messages; then
            echo "check-instructions: this valgrind does not know membarrier(2)" >&2
            exit 1
        fi
        # Parts of the main thread: before the first mark, within the first kind of call, up to the next one, and so on.
        part=0
        while IFS=$'\t' read -r kind calls; do
            part=$((part + 2))
            total=$(awk '$1 == "totals:" { print $2 }' "count.$part-01")
            awk -v kind="$kind" -v total="$total" -v calls="$calls" \
                'BEGIN { printf "%s\t%.1f\n", kind, total / calls }'
        done <calls >figures
    ) &
    processes+=($!)
done
for process in "${processes[@]}"; do wait "$process"; done
paste "$work"/{1,2,3}/figures | awk -F '\t' '{
    low = high = $2
    if ($4 < low) low = $4; if ($4 > high) high = $4
    if ($6 < low) low = $6; if ($6 > high) high = $6
    printf "%s\t%.1f\n", $1, $2 + $4 + $6 - low - high
}' >"$work/figures"

if test "${1:-}" = --update; then
    { echo "# Instructions per call, written by Scripts/check-instructions.sh --update"
      echo "# $(swift --version 2>/dev/null | head -n 1)"
      cat "$work/figures"; } >"$baseline"
    cat "$baseline"
    exit
fi
test -f "$baseline" || { echo "check-instructions: there is no $baseline; --update writes it" >&2 && exit 1; }
awk -F '\t' '
    /^#/ { next }
    NR == FNR { expected[$1] = $2; next }
    !($1 in expected) { printf "%-40s %9.1f is not in the baseline\n", $1, $2; failed = 1; next }
    {
        change = 100 * ($2 / expected[$1] - 1)
        note = change > 3 ? "  TOO MANY" : change < -3 ? "  fewer: update the baseline" : ""
        printf "%-40s %9.1f, baseline %9.1f, %+5.1f %%%s\n", $1, $2, expected[$1], change, note
        if (change > 3) failed = 1
        delete expected[$1]
    }
    END { for (kind in expected) { print kind " was not counted"; failed = 1 } exit failed }
' "$baseline" "$work/figures" || { echo "check-instructions: failed; baseline of $(sed -n 2p "$baseline")" >&2 && exit 1; }
