"""P11, E16: what cannot be held is told, refused where the policy needs it, and what still holds does. As a plain user with no capabilities."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time

import pytest

from live import PAWL, PAWLD, SLOW, Live, until
from watched import Bound, Watched, folder_for_all, for_everybody, policy, program, skip_unless_root, tell

WHO = pwd.getpwnam("nobody")
NEEDS_KERNEL = {"deny_exec": ["/usr/bin/nc"], "fork_rate": "100/s", "exec_rate": "100/s"}


class Plain(Watched):
    """All of it as nobody: init, daemon, runs. Root only builds the fence around."""

    def __init__(self, text, options=()):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="pawl-plain-", dir="/var/lib"))
        os.chown(self.home, WHO.pw_uid, WHO.pw_gid)
        self.work = folder_for_all()
        self.bound = Bound()
        self.options = options
        self.pawld_at, self.pawl_at = for_everybody(PAWLD), for_everybody(PAWL)  # side by side: doctor looks there
        Live.__init__(self, None, folder=self.home / "p")
        self.write_policy(text)
        os.chown(self.policy, WHO.pw_uid, WHO.pw_gid)

    def demote(self):
        os.chdir("/")  # the checkout may be closed to nobody
        self.bound.enter()
        os.setgroups([])
        os.setresgid(WHO.pw_gid, WHO.pw_gid, WHO.pw_gid)
        os.setresuid(WHO.pw_uid, WHO.pw_uid, WHO.pw_uid)

    def pawl(self, *args, timeout=60):
        return subprocess.run([self.pawl_at, *args], capture_output=True, text=True, timeout=timeout * SLOW, stdin=subprocess.DEVNULL, preexec_fn=self.demote,
                              env=self.bound.env(HOME=str(self.home)))

    def spawn(self, *more):
        return subprocess.Popen([self.pawld_at, "--dir", str(self.dir), *self.options, *more], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=self.demote, env=self.bound.env(HOME=str(self.home)))

    def run(self, *cmd, user=None, more=(), **how):
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace", **how}
        return subprocess.Popen([self.pawl_at, "run", "--dir", str(self.dir), *more, "--", *map(str, cmd)], preexec_fn=self.demote,
                                env=self.bound.env(HOME=str(self.home)), stdin=how.pop("stdin", subprocess.DEVNULL), **how)

    def __exit__(self, *what):
        try:
            super().__exit__(*what)
        finally:
            shutil.rmtree(self.home, ignore_errors=True)
            shutil.rmtree(self.work)


@pytest.fixture
def plain():
    skip_unless_root()
    made = []

    def make(text, start=True, options=()):
        w = Plain(text, options)
        made.append(w)
        return w.start() if start else w

    yield make
    for w in made:
        w.__exit__(None, None, None)


def without_leak_check(monkeypatch):
    """The search for leaks at an end traces its own process, which pawld's filter refuses; behind a watcher the end is another's."""
    monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


def probes(w):
    return {name[6:]: p for name, p in w.status()["probes"].items() if name.startswith("watch.")}


def test_status_and_log_name_every_probe(plain):
    """Each is on, off or partial; what is not on says why and how to get it; the start entry has the same states."""
    w = plain(policy(wall="10s"))
    rows = probes(w)
    assert len(rows) == 12 and all(p["state"] in ("on", "off", "partial") for p in rows.values()), rows
    off = [p for p in rows.values() if p["state"] != "on"]
    assert off and all(p["why"] for p in off), rows
    assert rows["tracing"]["state"] == "off", rows
    start = [e["body"] for e in w.entries() if e["body"]["kind"] == "start"][-1]
    told = {name[6:]: p["state"] for name, p in start["probes"].items() if name.startswith("watch.")}
    assert told == {name: p["state"] for name, p in rows.items()}, start["probes"]


def test_doctor_says_what_is_missing_and_how_to_get_it(plain):
    w = plain(policy(wall="10s"))
    done = w.pawl("doctor", "--dir", str(w.dir))
    for name, p in probes(w).items():
        assert name in done.stdout, done.stdout
    assert "CAP_BPF" in done.stdout, done.stdout
    rows = [r for r in json.loads(w.pawl("doctor", "--dir", str(w.dir), "--json").stdout)["rows"] if r["get"]]
    assert len(rows) > 3 and not [r for r in rows if r["get"] in r["why"]], rows  # the advice once, in its own line


@pytest.mark.parametrize("option", [(), ("--no-watch",)], ids=["watcher", "no-watch"])
def test_required_does_not_start(plain, option, monkeypatch):
    """E16: with every probe that is missing named."""
    without_leak_check(monkeypatch)
    w = plain(policy(exec="required"), start=False)
    code, said = w.try_start(*option)
    assert code == 78, (code, said)
    assert "required" in said, said
    if not option:
        assert "tracing" in said, said


def test_required_does_not_start_without_a_watcher_even_for_root(monkeypatch):
    skip_unless_root()
    without_leak_check(monkeypatch)
    with Watched(policy(exec="required")) as w:
        code, said = w.try_start("--no-watch")
        assert code == 78 and "required" in said, (code, said)


@pytest.mark.parametrize("key", sorted(NEEDS_KERNEL))
def test_a_run_that_needs_more_is_refused_by_name(plain, key):
    w = plain(policy(**{key: NEEDS_KERNEL[key]}))
    done = w.done("/bin/sh", "-c", f"touch {w.work}/ran")
    assert done.returncode == 125, done
    assert key in done.stderr and "--allow-degraded" in done.stderr, done
    assert not (w.work / "ran").exists()


def test_all_that_is_missing_is_named_at_once(plain):
    w = plain(policy(**NEEDS_KERNEL))
    done = w.done("/bin/true")
    assert done.returncode == 125 and all(k in done.stderr for k in NEEDS_KERNEL), done


def test_allow_degraded_says_what_does_not_hold(plain):
    w = plain(policy(**NEEDS_KERNEL, wall="30s"))
    done, end = w.ended("/bin/sh", "-c", "exit 5", more=("--allow-degraded",))
    assert done.returncode == 5, done
    assert all(k in done.stderr for k in NEEDS_KERNEL), done
    attach = w.watch_rows(action="attach", session=end["session"])[0]
    assert not set(NEEDS_KERNEL) & set(attach.get("held", [])), attach
    assert attach["tier"] in ("C", "D"), attach


def test_the_wall_clock_holds(plain):
    w = plain(policy(wall="500ms"))
    done, end = w.ended(program("hog"), "sleep", 60, more=("--allow-degraded",))
    assert done.returncode == 128 + 9 and end["why"] == "wall", (done, end)


def test_the_number_of_processes_holds_by_rlimit(plain):
    w = plain(policy(processes=20))
    report = w.work / "report"
    done = w.done(program("bomb"), "wide", 500, 3, report, more=("--allow-degraded",))
    tried, forked, ran = (int.from_bytes(report.read_bytes()[i : i + 8], "little") for i in (0, 8, 16))
    tell("bomb held by RLIMIT_NPROC, limit 20", tried=tried, forked=forked)
    assert tried == 500 and forked <= 20, (tried, forked, done)


def test_what_it_must_not_see_is_hidden(plain):
    w = plain(policy(wall="30s"))
    for name in ("keys", "state", "log", "policy.yaml", "run/operator"):
        path = w.dir / name
        done = w.done("/bin/sh", "-c", f"cat {path} 2>&1; ls -A {path} 2>&1; cat {path}/* 2>&1; exit 0", more=("--allow-degraded",))
        assert "PRIVATE" not in done.stdout and "pawl-entry" not in done.stdout and "watch-test" not in done.stdout, (name, done.stdout[:300])
    assert w.done("/bin/sh", "-c", f"cat {w.dir}/keys/entry.key", more=("--allow-degraded",)).returncode != 0


def test_writes_under_holds(plain):
    w = plain(policy(wall="30s"), start=False)
    inside = w.work / "in"
    inside.mkdir()
    inside.chmod(0o777)
    w.write_policy(policy(writes_under=[inside]))
    os.chown(w.policy, WHO.pw_uid, WHO.pw_gid)
    w.start()
    done = w.done("/bin/sh", "-c", f"echo a > {inside}/a && echo in; echo b > {w.work}/b && echo out; mv {inside}/a {w.work}/a && echo moved; exit 0",
                  more=("--allow-degraded",))
    assert done.stdout == "in\n", done
    assert sorted(p.name for p in w.work.rglob("*")) == ["a", "in"]
    bare = w.bound.popen("/bin/sh", "-c", f"echo b > {w.work}/b")
    assert bare.wait() == 0, "it is the watch that refused"


def test_root_without_capabilities_is_told_too():
    """A container: uid 0, and nothing that goes with it."""
    skip_unless_root()
    with Watched(policy(exec="required", wall="10s")) as w:
        p = subprocess.Popen(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", str(PAWLD), "--dir", str(w.dir)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=w.bound.enter, env=w.bound.env())
        said = p.communicate(timeout=20 * SLOW)[1]
        assert p.returncode == 78 and "required" in said and "tracing" in said, (p.returncode, said)


def test_the_judging_process_killed_under_a_tree_known_by_descent():
    """Nothing marks such a tree but its first process and its launcher, and both are known again."""
    skip_unless_root()
    with Plain(policy(wall="60s")) as w:
        w.start()
        p = w.run("/bin/sh", "-c", "echo on; read line; exit 3", more=("--allow-degraded",), stdin=subprocess.PIPE)
        assert p.stdout.readline() == "on\n"
        os.kill(w.rest_pid, 9)
        until("there is another", lambda: is_answered(w), 30)
        time.sleep(6)  # longer than a launcher may be away
        assert p.poll() is None
        said = p.communicate("go\n", timeout=30 * SLOW)
        assert p.returncode == 3, said
        (end,) = w.watch_rows(action="end")
        assert (end["why"], end["killed"]) == ("ended", 0)


def is_answered(w):
    try:
        return w.status()["pid"]["rest"] != w.rest_pid
    except (AssertionError, OSError):
        return False
