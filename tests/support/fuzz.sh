#!/bin/bash
# fuzz.sh WORKDIR FUZZER... - runs each libFuzzer target for FUZZ_SECONDS on a copy of its corpus, so that the seeds stay as they are.
# Seeds of fuzz_X: tests/fuzz/corpus/X or tests/fuzz/corpus/fuzz_X; dictionary: tests/fuzz/X.dict. What it finds stays in WORKDIR/X/.
set -euo pipefail
work=$1
shift
[ $# -gt 0 ] || { echo "fuzz: no targets yet"; exit 0; }
bad=0
for fuzzer in "$@"; do
	name=${fuzzer##*/fuzz_}
	mkdir -p "$work/$name/corpus" "$work/$name/found"
	for seeds in "tests/fuzz/corpus/$name" "tests/fuzz/corpus/fuzz_$name"; do
		[ ! -d "$seeds" ] || cp -r "$seeds/." "$work/$name/corpus/"
	done
	options=()
	[ ! -e "tests/fuzz/$name.dict" ] || options+=("-dict=tests/fuzz/$name.dict")
	if "$fuzzer" -max_total_time="${FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$work/$name/found/" "${options[@]}" "$work/$name/corpus" >"$work/$name/log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name/log")
		echo "fuzz ok: $name, ${runs:-?} inputs in ${FUZZ_SECONDS:-20} s"
		[ "${runs:-0}" -gt 0 ] || { echo "fuzz FAILED: $name ran nothing"; bad=1; }
	else
		tail -n 40 "$work/$name/log"
		echo "fuzz FAILED: $name, see $work/$name/"
		bad=1
	fi
done
exit $bad
