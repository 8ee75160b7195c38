#!/bin/bash
# unit.sh TEST... - runs each unit test, as many at a time as there are processors, and shows what each said in one piece.
#   UNIT_ALONE     names that run one after the other, whatever else runs: they wait more than they compute, and bring many processes
#   TEST_TIMEOUT   seconds for each; WRAP: the program to run each under
set -euo pipefail
timeout=${TEST_TIMEOUT:-1800}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

one() { # TEST: what it said, and a line in $work/bad when it failed
	local name=${1##*/} status=0
	# shellcheck disable=SC2086 # WRAP is words
	timeout "$timeout" ${WRAP:-} "$1" >"$work/$name" 2>&1 </dev/null || status=$?
	(
		flock 9
		cat "$work/$name"
		[ $status -eq 0 ] || { echo "FAILED: $1 (status $status)" && echo "$1" >>"$work/bad"; }
	) 9>"$work/lock"
}
export -f one
export work timeout

alone=() others=()
for t in "$@"; do
	case " ${UNIT_ALONE:-} " in
	*" ${t##*/} "*) alone+=("$t") ;;
	*) others+=("$t") ;;
	esac
done
run() { # HOW-MANY TEST...
	local n=$1
	shift
	[ $# -eq 0 ] || printf '%s\0' "$@" | xargs -0 -n 1 -P "$n" bash -c 'one "$1"' one
}
lanes=$(($(nproc) - 1))
run 1 "${alone[@]}" &
run $((lanes > 1 ? lanes : 1)) "${others[@]}"
wait $!
[ ! -s "$work/bad" ] || { echo "unit tests that failed: $(tr '\n' ' ' <"$work/bad")"; exit 1; }
