#!/bin/bash
# check-layers.sh [LIBPAWL.A] - the house's rules that a compiler does not know: a room includes only rooms below it, each library's
# header has one file, some calls are never made, no state outside a struct. Prints every breach as file:line: text; exit 1 if any.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=${1:-}
breaches=0
breach() {
	echo "$1" >&2
	breaches=$((breaches + 1))
}
sources() { find "$@" -type f \( -name '*.c' -o -name '*.h' \) 2>/dev/null | sort; }

room_of() { # the room a path lies in
	case $1 in
	pawl/* | include/pawl/*) echo include ;;
	daemon/main.c | daemon/cli/pawl.c) echo top ;;
	daemon/base/*) echo base ;;
	policy/*) echo policy ;;
	daemon/log/*) echo log ;;
	daemon/store/*) echo store ;;
	daemon/door/*) echo door ;;
	daemon/watch/*) echo watch ;;
	daemon/cli/*) echo cli ;;
	daemon/*) echo hall ;;
	hooks/run/*) echo run ;;
	*) echo other ;;
	esac
}

below() { # the rooms that a room may include, itself among them
	case $1 in
	include) echo include ;;
	base) echo include base ;;
	run) echo include base run ;;
	policy) echo include base policy ;;
	log) echo include base policy log ;;
	store) echo include base policy log store ;;
	hall) echo include base policy log store hall ;;
	door) echo include base policy log store hall door ;;
	watch) echo include base policy log store hall watch ;;
	cli) echo include base policy log store run cli ;;
	top) echo include base policy log store hall door watch run cli ;;
	esac
}

exception() { # file header: the few that go up, each with its reason
	case "$1 $2" in
	# the committer syncs private values before the entry that needs them, in one batch; it holds the store by pointer
	"daemon/log/committer.c daemon/store/private.h") ;;
	# wire.h is the pure form of a request, and what the hall is asked with; no socket comes with it
	daemon/*" daemon/door/wire.h") case $1 in daemon/base/* | daemon/log/* | daemon/store/*) return 1 ;; esac ;;
	*) return 1 ;;
	esac
}

check_rooms() {
	local file line header from to
	while IFS=: read -r file line header; do
		from=$(room_of "$file")
		header=${header#*\"}
		header=${header%%\"*}
		case $header in
		starter_policy.h | guard_bpf.h) continue ;; # made by the build
		*/*) to=$(room_of "$header") ;;
		*) breach "$file:$line: \"$header\" is not named from the top of the repository"; continue ;;
		esac
		case " $(below "$from") " in *" $to "*) continue ;; esac
		exception "$file" "$header" || breach "$file:$line: $from must not include $to: \"$header\""
	done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' $(sources include policy daemon hooks/run) /dev/null || true)
}

only_in() { # header pattern, files that may include it (a shell pattern)
	local file line rest
	while IFS=: read -r file line rest; do
		# shellcheck disable=SC2254
		case $file in $2) ;; *) breach "$file:$line: only $2 includes $1" ;; esac
	done < <(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<$1" $(sources include policy daemon hooks/run) /dev/null || true)
}

never() { # pattern, why, folders...
	local pattern=$1 why=$2 hit
	shift 2
	while read -r hit; do
		breach "$hit   <- $why"
	done < <(grep -nE "(^|[^A-Za-z0-9_>.])($pattern)[[:space:]]*\(" $(sources "$@") /dev/null | grep -vE ':[0-9]+:[[:space:]]*(/?\*|//)' || true)
}

check_globals() { # objects in .data and .bss; constant tables live elsewhere. The one exception is the flag of the loop's signal handler.
	local section name flag
	flag=$(sed -n 's/^static volatile sig_atomic_t \([a-z_]*\);.*/\1/p' daemon/loop.c 2>/dev/null | head -n 1)
	while read -r section name; do
		case $name in "${flag:-stop}" | completed.* | __* | *asan* | *tsan* | *ubsan*) continue ;; esac
		breach "$archive: $name lies in $section: no state outside a struct"
	done < <(objdump -t "$archive" 2>/dev/null | awk '{ for (i = 2; i < NF; i++) if ($i == "O" && $(i + 1) ~ /^\.(t?data|t?bss)/ &&
		$(i + 1) !~ /^\.data\.rel\.ro/) print $(i + 1), $NF }')
}

check_sizes() {
	local n file
	while read -r n file; do
		[ "$file" = total ] || [ "$n" -le 500 ] || breach "$file: $n lines: past 500 a file is split"
	done < <(wc -l $(sources include policy daemon hooks/run) /dev/null) # tests are tables and may be long
}

check_rooms
only_in 'jansson\.h' daemon/base/json.c
only_in 'yaml\.h' policy/yaml.c
only_in 'pcre2\.h' policy/regex.c
only_in 'nanomsg/' 'no file of pawld or pawl'
only_in 'sqlite3\.h' 'daemon/store/*.c'
only_in 'microhttpd\.h' daemon/door/http.c
only_in 'bpf/' 'daemon/watch/guard*.c'
only_in '(n?curses|ncursesw/.*)\.h' daemon/cli/console.c
all="include policy daemon hooks"
# shellcheck disable=SC2086
{
	never 'strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strncpy|strtok' 'cannot be bounded, or does not end its text' $all
	never 'atoi|atol|atoll|atof|sscanf' 'cannot tell a bad number from 0' $all
	never 'alloca|strdupa' 'takes its size from outside on the stack' $all
	never 'system|popen|mktemp|tmpnam|tempnam|rand|srand|random|drand48' 'a shell, a race or a guessable number' $all
}
never 'time|clock_gettime|gettimeofday|socket|connect|open|openat|fopen|read|write|pthread_[a-z_]+|getenv|printf|fprintf' \
	'the judge is pure: no clock, no file, no socket, no thread' policy
never 'strtod|strtof|strtold' 'money never passes through a double' policy/money.c policy/budget.c
[ -z "$archive" ] || check_globals
check_sizes
if [ $breaches -gt 0 ]; then
	echo "check-layers: $breaches breaches" >&2
	exit 1
fi
echo "check-layers: ok, $(sources include policy daemon hooks/run | wc -l) files"
