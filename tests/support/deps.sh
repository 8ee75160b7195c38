#!/bin/bash
# deps.sh demo|test|all - the packages that a part of the build needs: says which are missing and why, and installs them.
# Silent when everything is there. `demo` needs the least, `test` adds what the tests use, `all` the tools of the harsher checks.
#   PAWL_DEPS=no   never install; say what is missing and exit 1
# Where there is no apt it says what to install and exits 1. Not root: the line that sudo will run is shown first.
set -euo pipefail
cd "$(dirname "$0")/../.."

want=${1:-all}
case $want in demo | test | all) ;; *) echo "usage: deps.sh demo|test|all" >&2; exit 2 ;; esac
no=${PAWL_DEPS:-yes}

# group, package (or a|b: either will do), how to find it where dpkg is not, why
rows() {
	cat <<'ROWS'
demo gcc               cmd:gcc              compiles pawld and pawl
demo make              cmd:make             runs the build
demo pkg-config|pkgconf cmd:pkg-config      tells the build where the libraries are
demo libc6-dev         hdr:stdio.h          headers of the C library
demo libsodium-dev     pkg:libsodium        Ed25519, SHA-256, keyed digests, locked pages for keys
demo libyaml-dev       pkg:yaml-0.1         reads policies
demo libsqlite3-dev    pkg:sqlite3          the private store and the projection of the log
demo libjansson-dev    pkg:jansson          parses requests
demo libpcre2-dev      pkg:libpcre2-8       regex conditions
demo clang             cmd:clang            compiles the programs that run in the kernel, also when gcc compiles the rest
demo libbpf-dev        pkg:libbpf           loads them (and is linked into pawld alone)
demo python3           cmd:python3          the decorator and the demo's agent
test libcmocka-dev     pkg:cmocka           unit tests
test python3-venv      py:ensurepip         a private Python environment for the tests, under build/
test libnanomsg-dev    pkg:nanomsg          a client of another hand, for a unit test and the benchmark
test procps            cmd:ps               the tests look for processes left behind
test git               cmd:git              a clone under watch, unharmed
test tmux              cmd:tmux             a terminal, for job control under watch
test util-linux        cmd:setpriv          takes capabilities away, for the watch of a plain user
test qemu-system-x86   cmd:qemu-system-x86_64 the watch on Debian's own kernel, in a machine of its own
test busybox-static    cmd:busybox          what that machine has for programs
test cpio              cmd:cpio             packs its first disk
all  @clang-rt         none                 the sanitizers of clang, the second compiler; its analyzer and libFuzzer
all  valgrind          cmd:valgrind         check-valgrind
all  cppcheck          cmd:cppcheck         a third opinion in `make analyze`
ROWS
}

# clang's run-time library carries clang's version in its name, and the version is the distribution's.
clang_rt() {
	local v
	v=$(clang -dumpversion 2>/dev/null | cut -d. -f1 || true)
	[ -n "$v" ] || v=$(apt-cache depends clang 2>/dev/null | sed -n '0,/.*Depends: clang-\([0-9][0-9]*\)$/s//\1/p' | grep -x '[0-9]*' || true)
	[ -z "$v" ] || echo "libclang-rt-$v-dev"
}

have_dpkg() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

probe() { # the same question where packages have other names
	case $1 in
	cmd:*) command -v "${1#cmd:}" >/dev/null ;;
	pkg:*) pkg-config --exists "${1#pkg:}" 2>/dev/null ;;
	hdr:*) [ -e "/usr/include/${1#hdr:}" ] ;;
	py:*) "${PYTHON:-python3}" -c "import ${1#py:}" 2>/dev/null ;;
	*) true ;;
	esac
}

is_there() { # names probe
	local one
	if command -v dpkg-query >/dev/null; then
		for one in ${1//|/ }; do have_dpkg "$one" && return 0; done
		return 1
	fi
	probe "$2"
}

find_missing() { # fills missing[] and reasons[]
	local group names how why
	missing=() reasons=()
	while read -r group names how why; do
		case $want:$group in demo:test | demo:all | test:all) continue ;; esac
		if [ "$names" = @clang-rt ]; then
			names=$(clang_rt)
			[ -n "$names" ] || continue
		fi
		if ! is_there "$names" "$how"; then
			missing+=("${names%%|*}")
			reasons+=("$why")
		fi
	done < <(rows)
}

apt_quiet() { # apt's own talk is kept for the day it fails; a line that sudo runs is shown first
	local line=(env DEBIAN_FRONTEND=noninteractive) v
	mkdir -p build
	for v in http_proxy https_proxy no_proxy; do # sudo drops them, and apt may need them
		if [ -n "${!v:-}" ]; then line+=("$v=${!v}"); fi
	done
	line+=(apt-get -q -o DPkg::Lock::Timeout=120 "$@")
	if [ "$(id -u)" != 0 ]; then
		line=(sudo "${line[@]}")
		echo "deps: ${line[*]}"
	fi
	"${line[@]}" >build/deps.log 2>&1 </dev/null
}

can_install() { # every missing package has a candidate in the lists that are here
	local p known
	for p in "${missing[@]}"; do
		known=$(apt-cache policy "$p" 2>/dev/null)
		[[ $known == *"Candidate: "[0-9]* ]] || return 1
	done
}

say_missing() {
	local i
	for i in "${!missing[@]}"; do printf '  %-20s %s\n' "${missing[$i]}" "${reasons[$i]}"; done
}

install_packages() {
	find_missing
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "deps: missing here:"
	say_missing
	if [ "$no" = no ]; then
		echo "deps: PAWL_DEPS=no forbids installing; run: apt-get install ${missing[*]}" >&2
		return 1
	fi
	if ! command -v apt-get >/dev/null; then
		echo "deps: there is no apt here; install these (Debian's names) with your package manager" >&2
		return 1
	fi
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		echo "deps: not root and no sudo; run as root: apt-get install ${missing[*]}" >&2
		return 1
	fi
	if ! can_install; then
		echo "deps: the package lists are old or empty: apt-get update"
		apt_quiet update || { tail -n 20 build/deps.log >&2; return 1; }
		find_missing # clang's version is known only now
	fi
	echo "deps: apt-get install ${missing[*]}"
	if ! apt_quiet install -y --no-install-recommends "${missing[@]}"; then
		echo "deps: apt-get update, and once more"
		apt_quiet update && apt_quiet install -y --no-install-recommends "${missing[@]}" || {
			tail -n 20 build/deps.log >&2
			return 1
		}
	fi
	find_missing # the version of clang may have been learnt by installing it
	[ ${#missing[@]} -eq 0 ] || apt_quiet install -y --no-install-recommends "${missing[@]}" || {
		tail -n 20 build/deps.log >&2
		return 1
	}
}

python_env() { # pytest, for the tests only: the package itself needs nothing but the standard library
	local list=tests/support/requirements.txt stamp=build/venv/.ready
	if cmp -s "$list" "$stamp"; then
		return 0
	fi
	echo "deps: private Python environment in build/venv ($(grep -v '^#' "$list" | tr '\n' ' '))"
	if [ "$no" = no ]; then
		echo "deps: PAWL_DEPS=no forbids making it; run: python3 -m venv build/venv && build/venv/bin/pip install -r $list" >&2
		return 1
	fi
	mkdir -p build
	{ rm -rf build/venv && "${PYTHON:-python3}" -m venv build/venv &&
		build/venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$list"; } >build/deps.log 2>&1 || {
		tail -n 20 build/deps.log >&2
		return 1
	}
	cp "$list" "$stamp"
}

install_packages
[ "$want" = demo ] || python_env
