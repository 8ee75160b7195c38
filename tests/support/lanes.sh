#!/bin/bash
# lanes.sh TEST... - runs $RUN TEST for each, as many at a time as there are processors (two at least), and shows what each said in one piece.
#   RUN            the words before a test's name
#   ALONE          names (the last part) of those of which never two run at the same time: they bring many processes, and load programs
#                  into the kernel
#   TEST_TIMEOUT   seconds for each
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

one() { # TEST: what it said, and a line in $work/bad when it failed
	local name=${1##*/} status=0 start=$SECONDS
	[ ! -t 2 ] || echo "-- $1" >&2 # somebody looks on
	mkdir "$work/$name.tmp" # pytest's: of one place for all, each session would clear the others' away at its end
	# shellcheck disable=SC2086 # RUN is words
	PYTEST_DEBUG_TEMPROOT=$work/$name.tmp timeout "${TEST_TIMEOUT:-1800}" ${RUN:-} "$1" >"$work/$name" 2>&1 </dev/null || status=$?
	(
		flock 9
		echo "== $1: $((SECONDS - start)) s"
		cat "$work/$name"
		echo "$1" >>"$work/over"
		[ $status -eq 0 ] || { echo "FAILED: $1 (status $status)" && echo "$1" >>"$work/bad"; }
	) 9>"$work/lock"
}

lane() { # TEST...: those of them that no other lane has taken
	local t
	for t in "$@"; do
		mkdir "$work/taken-${t//\//-}" 2>/dev/null || continue
		one "$t"
	done
}

alone=() others=()
for t in "$@"; do
	case " ${ALONE:-} " in
	*" ${t##*/} "*) alone+=("$t") ;;
	*) others+=("$t") ;;
	esac
done
lane "${alone[@]}" "${others[@]}" &
for ((n = 1; n == 1 || n < $(nproc); n++)); do
	lane "${others[@]}" &
done
wait
[ $# -eq 0 ] || [ "$(wc -l <"$work/over")" -eq $# ] || { echo "a lane ended before its tests"; exit 1; }
[ ! -s "$work/bad" ] || { echo "tests that failed: $(tr '\n' ' ' <"$work/bad")"; exit 1; }
