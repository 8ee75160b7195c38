#!/bin/bash
# guest.sh [-f FILE[:PLACE]]... [-t SECONDS] [-m MIB] -- COMMAND... - runs COMMAND (a line for sh) as root in a small machine of its own, with the distribution's stock kernel:
# another kernel than the one underneath, with BPF trampolines, pure cgroup v2, and nobody else on it. What the guest prints is
# printed; the exit status is COMMAND's, 124 when the time was up, 125 when the guest could not be made or told no status.
#
#   -f FILE[:PLACE]  copied in, a folder with all below it; shared libraries of programs come along. PLACE: where (the same path)
#   -t SECONDS       300: the processor is emulated, which is slow and works everywhere
#   -m MIB           768
#
# The kernel is Debian's or Ubuntu's package, unpacked once below build/guest/ and not installed; PAWL_GUEST_KERNEL names another image.
# Needs qemu-system-x86, busybox-static and cpio (deps.sh). Leaves nothing: no disk, no network, no process.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
cache=$here/build/guest
files=() limit=300 memory=768

fail() {
	echo "guest: $*" >&2
	exit 125
}

while [ $# -gt 0 ]; do
	case $1 in
	-f) files+=("$2"); shift 2 ;;
	-t) limit=$2; shift 2 ;;
	-m) memory=$2; shift 2 ;;
	--) shift; break ;;
	*) sed -n '2,11p' "$0"; exit 125 ;;
	esac
done
[ $# -gt 0 ] || fail "no command"
for program in qemu-system-x86_64 busybox cpio gzip; do
	command -v $program >/dev/null || fail "$program is missing; tests/support/deps.sh test"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kernel() { # prints the path of a bootable image; two runs at once may both fetch it, and the last rename wins
	local package fetch
	if [ -n "${PAWL_GUEST_KERNEL:-}" ]; then
		echo "$PAWL_GUEST_KERNEL"
		return
	fi
	if [ ! -s "$cache/vmlinuz" ]; then
		mkdir -p "$cache" "$work/fetch"
		package=$(apt-cache depends linux-image-cloud-amd64 linux-image-virtual 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
		[ -n "$package" ] || fail "apt knows neither linux-image-cloud-amd64 (Debian) nor linux-image-virtual (Ubuntu): apt-get update, or PAWL_GUEST_KERNEL"
		chmod 755 "$work" "$work/fetch"
		(cd "$work/fetch" && apt-get -q download "$package" && dpkg-deb -x ./*.deb out) >"$work/fetch.log" 2>&1 || {
			tail -n 5 "$work/fetch.log" >&2
			fail "$package cannot be fetched"
		}
		fetch=$(mktemp "$cache/vmlinuz.XXXXXX")
		cp "$work"/fetch/out/boot/vmlinuz-* "$fetch"
		mv "$fetch" "$cache/vmlinuz"
		rm -rf "$work/fetch"
	fi
	echo "$cache/vmlinuz"
}

libraries() { # of one program, to where the loader looks for them
	local lib
	{ ldd "$1" 2>/dev/null || true; } | sed -n 's/^[^/]*\(\/[^ ]*\).*/\1/p' | while read -r lib; do
		[ -e "$root$lib" ] || install -D "$lib" "$root$lib"
	done
}

copy_in() {
	local one from to program
	for one in "${files[@]}"; do
		from=${one%%:*} to=${one#*:}
		[ -e "$from" ] || fail "no such file: $from"
		case $to in /*) ;; *) to=$(realpath "$from") ;; esac
		mkdir -p "$root${to%/*}"
		cp -aLT "$from" "$root$to"
		while read -r program; do libraries "$program"; done < <(find "$root$to" -type f -perm -u+x)
	done
}

# /init: the mounts that a machine has, the command, its status on a line that nothing else begins with, and off.
first_process() {
	cat <<'INIT'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb PAWL_IN_GUEST=1
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
mount -t tmpfs -o mode=1777 none /tmp
mount -t tmpfs none /run
mount -t tmpfs none /var
mkdir -p /var/lib /var/tmp
mount -t cgroup2 none /sys/fs/cgroup
mount -t securityfs none /sys/kernel/security
mount -t tracefs none /sys/kernel/tracing
for c in cpu memory pids; do echo +$c > /sys/fs/cgroup/cgroup.subtree_control; done 2>/dev/null
ip link set lo up 2>/dev/null || ifconfig lo 127.0.0.1 up
echo "guest-begins $(uname -r)"
cd /root
sh /command </dev/null 2>&1
echo " guest-status $?"
poweroff -f
INIT
}

root=$work/root
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,etc,proc,sys,dev,tmp,run,root,var}
chmod 755 "$root"
install "$(command -v busybox)" "$root/bin/busybox"
for applet in $(busybox --list); do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
ln -s ../../bin/env "$root/usr/bin/env"
printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
[ ${#files[@]} -eq 0 ] || copy_in
printf '%s\n' "$*" >"$root/command"
first_process >"$root/init"
chmod 755 "$root/init"
image=$(kernel)
(cd "$root" && find . | cpio -o -H newc --quiet -R 0:0 | gzip -1) >"$work/initrd"

status=0
timeout -k 5 "$limit" qemu-system-x86_64 -accel tcg -cpu max -smp 1 -m "$memory" -display none -nodefaults -no-reboot -serial stdio \
	-kernel "$image" -initrd "$work/initrd" -append "console=ttyS0 quiet loglevel=3 panic=-1 lsm=landlock,lockdown,yama,bpf" \
	</dev/null >"$work/console" 2>&1 || status=$?
tr -d '\r' <"$work/console" >"$work/said"
awk '/guest-begins/ { on = 1; sub(/.*guest-begins/, "guest: kernel") } / guest-status [0-9]+$/ { sub(/ guest-status.*/, ""); if ($0 != "") print; exit } on' "$work/said"
if [ "$status" = 124 ] || [ "$status" = 137 ]; then
	echo "guest: $limit s are over" >&2
	exit 124
fi
told=$(sed -n 's/^.* guest-status \([0-9]*\)$/\1/p' "$work/said" | tail -n 1)
if [ -z "$told" ]; then
	tail -n 30 "$work/said" >&2
	fail "no status came back (qemu ended with $status)"
fi
exit "$told"
