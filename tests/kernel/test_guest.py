"""The same programs on another kernel: the distribution's own (Debian 12: 6.1) with trampolines and pure cgroup v2, in a machine of its own (tests/support/guest.sh).
What was built here is copied in byte for byte; nothing is compiled for it."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from live import BUILD, PAWL, PAWLD, ROOT, SLOW
from watched import policy, program, tell

GUEST = ROOT / "tests" / "support" / "guest.sh"
pytestmark = pytest.mark.skipif(not all(shutil.which(x) for x in ("qemu-system-x86_64", "busybox", "cpio")),
                                reason="this needs qemu-system-x86, busybox-static and cpio")


def guest(command, *files, seconds=300):
    words = [str(GUEST), "-t", str(int(seconds * SLOW))]
    for f in files:
        words += ["-f", str(f)]
    done = subprocess.run([*words, "--", command], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode == 125 and ("cannot be fetched" in done.stderr or "apt knows neither" in done.stderr):
        pytest.skip(f"this needs the distribution's kernel package: {done.stderr[-300:]}")
    return done


def test_the_guest_is_what_it_says():
    """Status, output, and a kernel that begins with nothing of this one."""
    done = guest("echo from $(uname -r); ls /sys/kernel/btf/vmlinux && exit 42")
    assert done.returncode == 42, done
    image = pathlib.Path(os.environ.get("PAWL_GUEST_KERNEL", ROOT / "build" / "guest" / "vmlinuz")).read_bytes()
    at = int.from_bytes(image[0x20e:0x210], "little") + 0x200  # x86's boot protocol: where the image says its version
    release = image[at:at + 256].split(b" ", 1)[0].decode()
    assert f"from {release}\n" in done.stdout, done


def test_the_programs_of_the_kernel_load_and_hold():
    """The unit tests of the guard, as they are."""
    units = [BUILD / "tests" / "unit" / name for name in ("test_guard", "test_guard_cgroup", "test_guard_exec", "test_guard_limits", "test_guard_pins")]
    if not all(u.exists() for u in units):
        subprocess.run(["make", "-s", f"B={BUILD.relative_to(ROOT)}", *(str(u.relative_to(ROOT)) for u in units)], cwd=ROOT, check=True)  # else the rules that *.d files bring would name other files
    lines = " ".join(f"/pawl/{u.name} || bad=1;" for u in units)
    done = guest(f"mkdir -p /root/build; export PAWL_REQUIRE=all bad=0; {lines} exit $bad", *(f"{u}:/pawl/{u.name}" for u in units))
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.count("[  PASSED  ]") == len(units) and "SKIPPED" not in done.stdout, done.stdout


SCRIPT = """
export PATH=/pawl:$PATH D=/var/lib/pawl
pawl init --dir $D >/dev/null || exit 90
cp /pawl/policy.yaml $D/policy.yaml && chmod 600 $D/policy.yaml
pawld --dir $D >/tmp/said 2>&1 &
daemon=$!
i=0
until grep -q 'ready: agent' /tmp/said; do i=$((i + 1)); [ $i -lt 600 ] && [ -d /proc/$daemon ] || { cat /tmp/said; exit 91; }; sleep 0.1; done
mkdir /tmp/w
for user in '' '--user nobody'; do
	chmod 777 /tmp/w
	pawl run --dir $D $user -- /pawl/execways execve /pawl/victim 200 /tmp/w
	pawl run --dir $D $user -- /pawl/execways memfd /pawl/victim 200 /tmp/w
	pawl run --dir $D $user -- /pawl/escape double-fork marked 100
	status=$? i=0
	while n=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[m]arked'); [ $n -gt 0 ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.1; done
	echo "escape $status left $n"
	pawl run --dir $D $user -- /pawl/bomb wide 400 60 /tmp/w/report; echo "bomb $?"
	rm -f /tmp/w/*
	pawl run --dir $D $user -- /pawl/ring
	pawl run --dir $D $user -- /bin/sh -c 'exit 9'; echo "plain $?"
done
pawl status --dir $D
kill -TERM $daemon; wait $daemon; echo "daemon $?"
pawl log verify --dir $D; echo "verify $?"
pawl log show --json --dir $D | grep '"kind":"watch"'
"""


def test_pawl_run_holds_there(tmp_path):
    (tmp_path / "policy.yaml").write_text(policy(exec="required", deny_exec=["/pawl/victim"], processes=40, fork_rate="5000/s", wall="10m"))
    (tmp_path / "script").write_text(SCRIPT)
    programs = [f"{x}:/pawl/{x.name}" for x in (PAWL, PAWLD)] + [f"{program(x)}:/pawl/{x}" for x in ("execways", "victim", "escape", "bomb", "ring")]
    done = guest("sh /pawl/script", *programs, f"{tmp_path}/policy.yaml:/pawl/policy.yaml", f"{tmp_path}/script:/pawl/script", seconds=400)
    out = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout[-5000:]
    ways = [json.loads(x) for x in out if x.startswith('{"way"')]
    assert len(ways) == 4 and all((w["killed"], w["bytes"]) == (200, 0) for w in ways), ways
    assert out.count("escape 0 left 0") == 2 and out.count("bomb 137") == 2 and out.count("plain 9") == 2, done.stdout[-5000:]
    assert sum(x.startswith("io_uring_setup refused") for x in out) == 2
    assert "daemon 0" in out and "verify 10" in out, done.stdout[-5000:]
    rows = [json.loads(x) for x in out if '"kind":"watch"' in x and x.startswith("{")]
    ends = [r for r in rows if r["action"] == "end"]
    bombs = [r for r in ends if r["why"] == "processes"]
    assert len(ends) == 12 and len(bombs) == 2, ends
    assert all(r["limit"] == 40 and 40 < r["peak"] <= 56 for r in bombs), bombs
    tell("in the guest: " + next(x for x in out if x.startswith("guest: kernel")), peaks=[r["peak"] for r in bombs])
