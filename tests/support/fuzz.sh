#!/bin/bash
# fuzz.sh WORKDIR FUZZER... - runs each libFuzzer target for FUZZ_SECONDS on a copy of its corpus, so that the seeds stay as they are.
# Seeds of fuzz_X: tests/fuzz/corpus/X or tests/fuzz/corpus/fuzz_X; dictionary: tests/fuzz/X.dict. What it finds stays in WORKDIR/X/.
set -euo pipefail
work=$1
shift
[ $# -gt 0 ] || { echo "fuzz: no targets yet"; exit 0; }

one() { # FUZZER: its last line says how it went
	local fuzzer=$1 name=${1##*/fuzz_} seeds runs options=()
	mkdir -p "$work/$name/corpus" "$work/$name/found"
	for seeds in "tests/fuzz/corpus/$name" "tests/fuzz/corpus/fuzz_$name"; do
		[ ! -d "$seeds" ] || cp -r "$seeds/." "$work/$name/corpus/"
	done
	[ ! -e "tests/fuzz/$name.dict" ] || options+=("-dict=tests/fuzz/$name.dict")
	if "$fuzzer" -max_total_time="${FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$work/$name/found/" "${options[@]}" "$work/$name/corpus" >"$work/$name/log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name/log")
		[ "${runs:-0}" -gt 0 ] || { echo "fuzz FAILED: $name ran nothing"; return 1; }
		echo "fuzz ok: $name, $runs inputs in ${FUZZ_SECONDS:-20} s"
	else
		tail -n 40 "$work/$name/log"
		echo "fuzz FAILED: $name, see $work/$name/"
		return 1
	fi
}

# one on each core
bad=0 waiting=()
for fuzzer in "$@"; do
	one "$fuzzer" &
	waiting+=($!)
	if [ ${#waiting[@]} -ge "$(nproc)" ]; then
		wait "${waiting[0]}" || bad=1
		waiting=("${waiting[@]:1}")
	fi
done
for pid in "${waiting[@]}"; do
	wait "$pid" || bad=1
done
exit $bad
