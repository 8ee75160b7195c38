"""The watcher beside the judging process: who holds what the kernel gave, what a kill leaves behind, and what `pawld --probe` says."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess

import pytest

from live import PAWLD, POLICY, Live, alive, private_mounts, until

NAMES = {"tracing", "pins", "sampler", "iterator", "cgroup", "memory", "pids", "pid_namespace", "landlock", "seccomp", "lsm", "mount_namespace"}
NOBODY = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason="this needs root")
mounts = pytest.mark.skipif(os.geteuid() != 0 or not private_mounts(), reason="this needs root, and mounts of its own: not in a chroot")


def held(pid: int) -> list[str]:
    found = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except FileNotFoundError:
            pass
    return found


def powers(links: list[str]) -> list[str]:
    """What only the watcher may hold."""
    return [x for x in links if "bpf" in x or "pidfd" in x or "/cgroup" in x or x.startswith("/run/pawl-watch")]


def instance(d: Live) -> str:
    """What a pawld of this folder is called outside of it: daemon/watch/probe.h."""
    state = d.dir.resolve() / "state"
    st = state.stat()
    name = bytes(state) + b"\0" + st.st_dev.to_bytes(8, "little") + st.st_ino.to_bytes(8, "little")
    return hashlib.blake2b(name, digest_size=16).hexdigest()[:12]


def left(name: str) -> set[str]:
    """What a pawld of this name has outside of its folder."""
    found = {str(x) for x in pathlib.Path("/sys/fs/cgroup").glob(f"**/pawl.{name}")}
    for folder in ("/run/pawl-watch", "/sys/fs/bpf"):
        if os.path.isdir(folder):
            found |= {f"{folder}/{x}" for x in os.listdir(folder) if name in x}
    return found


def probe(*before: str, **more) -> dict:
    """before: words that end in an exec of what follows them, so that the number is pawld's."""
    process = subprocess.Popen([*before, PAWLD, "--probe"], stdout=subprocess.PIPE, text=True, **more)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert left(f"probe{process.pid}") == set()
    table = json.loads(text)
    assert set(table) == {"tier", "says", "probes"}
    assert table["tier"] in "ABCD" and table["says"]
    assert {row["name"] for row in table["probes"]} == NAMES
    for row in table["probes"]:
        assert set(row) == {"name", "state", "errno", "why", "get"}
        assert row["state"] in ("on", "partial", "off") and isinstance(row["errno"], int) and row["why"]
        if row["state"] == "on":
            assert row["get"] == ""
    return {row["name"]: row["state"] for row in table["probes"]} | {"tier": table["tier"]}


@root
def test_the_rest_holds_no_power() -> None:
    with Live() as d:
        d.start()
        has_bpf = any("bpf" in x for x in held(d.watcher_pid))
        if not has_bpf and os.environ.get("PAWL_REQUIRE") == "all":
            pytest.fail("PAWL_REQUIRE=all, and the programs do not load here")
        assert powers(held(d.rest_pid)) == []
        assert "bpf-map" not in pathlib.Path(f"/proc/{d.rest_pid}/maps").read_text()
        os.kill(d.rest_pid, signal.SIGKILL)
        until("another rest answers", lambda: not alive(d.rest_pid) and d.answers())
        assert powers(held(d.status()["pid"]["rest"])) == []
        assert any("bpf" in x for x in held(d.watcher_pid)) == has_bpf


@root
def test_the_watcher_is_hard() -> None:
    with Live() as d:
        d.start()
        status = pathlib.Path(f"/proc/{d.watcher_pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        limits = pathlib.Path(f"/proc/{d.watcher_pid}/limits").read_text()
        assert [x.split()[4] for x in limits.splitlines() if x.startswith("Max core file size")] == ["0"]


@root
def test_an_orderly_end_leaves_nothing() -> None:
    with Live() as d:
        d.start()
        if os.environ.get("PAWL_REQUIRE") == "all":
            assert left(instance(d))
        assert d.stop() == 0
        assert left(instance(d)) == set()


@root
def test_what_a_killed_watcher_left_goes_with_the_next_start() -> None:
    with Live() as d, Live() as other:
        d.start()
        its = left(instance(d))
        if not any("lock-" in x for x in its):
            pytest.skip("this kernel gave it nothing to leave")
        d.kill()
        other.start()  # of another folder
        assert left(instance(d)) == set()
        d.start()  # and it can start again
        assert d.stop() == 0


@root
def test_a_living_watcher_keeps_what_it_holds() -> None:
    with Live() as d, Live() as other:
        d.start()
        its = left(instance(d))
        other.start()
        assert left(instance(d)) == its
        assert other.stop() == 0
        assert left(instance(d)) == its
        assert d.stop() == 0


@root
def test_probe_as_root() -> None:
    table = probe()
    if table["tracing"] == "on":
        assert table["tier"] in "AB" or "off" in (table["landlock"], table["seccomp"], table["cgroup"])


KERNEL = {"tracing", "pins", "sampler", "iterator"}


@mounts  # (a sanitizer does not start without procfs)
@pytest.mark.parametrize("gone,off", [("/sys/kernel/btf", KERNEL), *([] if os.environ.get("PAWL_TEST_SHORT") else [("/proc", {"cgroup", "pid_namespace"})])])
def test_what_a_machine_does_not_show_is_off(gone: str, off: set[str]) -> None:
    """E16: a kernel that does not describe its types, a container without procfs: each part says so, and `exec: required` is no start."""
    before = ("unshare", "-m", "--propagation", "private", "sh", "-c", f'mount -t tmpfs none {gone} && exec "$@"', "sh")
    bare, table = probe(), probe(*before)
    assert {name for name in NAMES if bare[name] != "off" and table[name] == "off"} >= {name for name in off if bare[name] != "off"}
    assert table["tier"] >= bare["tier"] and (gone == "/proc" or table["tier"] in "CD")
    with Live(policy=POLICY.replace("rules:", "watch: {exec: required}\nrules:")) as d:
        done = subprocess.run([*before, PAWLD, "--dir", d.dir], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "watch.exec is required" in done.stderr, done


@root
def test_probe_as_a_plain_user(monkeypatch: pytest.MonkeyPatch) -> None:
    program = pathlib.Path("/tmp") / f"pawld-probe-{os.getpid()}"  # where anybody may read it
    program.write_bytes(PAWLD.read_bytes())
    program.chmod(0o755)
    monkeypatch.setitem(globals(), "PAWLD", program)
    try:
        table = probe(user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    finally:
        program.unlink()
    assert table["tracing"] == "off" and table["pins"] == "off"
    assert table["tier"] in "CD"


@root
def test_no_thread_of_the_judging_process_can_connect() -> None:
    """Else it could show the watcher a connection that it made itself, to some daemon above those that it wants to have ended."""
    def filters(path: pathlib.Path) -> int:
        return int(next(x.split()[1] for x in path.read_text().splitlines() if x.startswith("Seccomp_filters:")))

    with Live() as d:
        d.start()
        base = filters(pathlib.Path(f"/proc/{d.watcher_pid}/status"))
        threads = list(pathlib.Path(f"/proc/{d.rest_pid}/task").iterdir())
        assert len(threads) > 1 and {filters(x / "status") for x in threads} == {base + 2}


@mounts
def test_whoever_cannot_be_named_is_told_so() -> None:
    """A client from outside of pawld's pid namespace has no number there."""
    with Live() as d:
        p = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", PAWLD, "--dir", d.dir], stderr=subprocess.PIPE, text=True)
        try:
            door = str(d.dir / "run" / "watch.sock")
            until("the door is there", lambda: os.path.exists(door) or p.poll() is not None)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as c:
                until("it is heard", lambda: c.connect_ex(door) == 0)
                c.settimeout(10)
                got = json.loads(c.recv(65536))
            assert got["error"]["code"] == "unavailable" and "pid namespace" in got["error"]["message"], got
        finally:
            p.kill()
            p.communicate()
