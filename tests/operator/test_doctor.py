"""`pawl doctor`: what this machine lacks, from a scripted `pawld --probe`, a folder that was spoilt, and a pawld that runs."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import live
from watched import for_everybody

NAMES = ["tracing", "pins", "sampler", "iterator", "cgroup", "memory", "pids", "pid_namespace", "landlock", "seccomp", "lsm", "mount_namespace"]
WATCH = """pawl: 1
name: watched
default: deny
attended: false
rules:
  - {id: work, allow: [work]}
watch: {exec: log, deny_exec: [/usr/bin/nc], processes: 32, fork_rate: 200/s, exec_rate: 20/s, cpu: 60s, memory: 2GiB, wall: 10m, writes_under: [workspace/]}
...
"""
RULES = ["exec", "deny_exec", "processes", "fork_rate", "exec_rate", "cpu", "memory", "wall", "writes_under"]


class Doctor:
    def __init__(self, folder: pathlib.Path) -> None:
        self.home, self.dir, self.fake = folder, folder / "d", folder / "pawld"
        self.env = {"HOME": str(folder), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
        subprocess.run([live.PAWL, "init", "--dir", self.dir], check=True, capture_output=True)
        self.probes()

    def policy(self, text: str) -> None:
        (self.dir / "policy.yaml").write_text(text)

    def script(self, text: str) -> None:
        self.fake.write_text("#!/bin/sh\n" + text)
        self.fake.chmod(0o755)

    def says(self, answer: str) -> None:
        (self.home / "answer").write_text(answer)
        self.script(f'[ "$1" = --probe ] && [ $# = 1 ] || exit 64\ncat {self.home}/answer\n')

    def probes(self, **states: str) -> None:
        rows = [{"name": n, "state": states.get(n, "on"), "errno": 0, "why": f"about {n}", "get": "" if n not in states else f"get {n}"} for n in NAMES]
        self.says(json.dumps({"tier": "B", "says": "in words", "probes": rows}))

    def run(self, *words: str, **how) -> subprocess.CompletedProcess:
        pawl = for_everybody(live.PAWL) if how.get("user") else live.PAWL  # a checkout may be closed to others
        return subprocess.run([pawl, "doctor", "--dir", self.dir, "--pawld", self.fake, *words], capture_output=True, env=self.env,
                              stdin=subprocess.DEVNULL, timeout=60 * live.SLOW, **how)

    def rows(self, status: int, *words: str, **how) -> dict[str, dict]:
        done = self.run("--json", *words, **how)
        assert done.returncode == status, done
        doc = json.loads(done.stdout)
        rows = {(r["group"], r["name"]): r for r in doc["rows"]}
        assert len(rows) == len(doc["rows"]) and doc["missing"] == sum(r["missing"] for r in doc["rows"]) and (doc["missing"] > 0) == (status == 1)
        for r in doc["rows"]:  # what is not on has a reason; what is on has nothing to get
            assert r["state"] in ("on", "off", "partial") and r["why"] and not (r["state"] == "on" and (r["get"] or r["missing"])), r
        self.doc = doc
        return rows


@pytest.fixture
def doctor(folder):
    return Doctor(folder)


@pytest.mark.parametrize("words", [("x",), ("--no-such",), ("--dir",), ("--all",)])
def test_usage(words, doctor):
    done = subprocess.run([live.PAWL, "doctor", *words], capture_output=True, env=doctor.env)
    assert done.returncode == 2 and b"usage: pawl doctor" in done.stderr and not done.stdout


def test_all_is_there(doctor):
    doctor.policy(WATCH)
    rows = doctor.rows(0)
    assert doctor.doc["tier"] == "B" and doctor.doc["says"] == "in words" and doctor.doc["from"] == str(doctor.fake)
    assert [n for g, n in rows if g == "kernel"] == NAMES
    assert [n for g, n in rows if g == "policy"] == RULES and all(rows["policy", n]["state"] == "on" for n in RULES)
    assert rows["policy", "processes"]["why"] == "32" and rows["policy", "memory"]["why"] == "2048 MiB" and rows["policy", "cpu"]["why"] == "1m"
    assert rows["doors", "running"]["state"] == "off" and "pawld --dir" in rows["doors", "running"]["get"]
    said = doctor.run()
    assert said.returncode == 0 and said.stdout.decode().startswith("tier B: in words\n") and said.stdout.decode().endswith("all that the policy needs is there\n")
    assert not said.stderr


@pytest.mark.parametrize("gone,missing,gaps", [
    ("tracing", ["deny_exec", "fork_rate", "exec_rate"], ["processes"]), ("landlock", ["writes_under"], []), ("memory", ["memory"], []), ("cgroup", ["cpu"], []),
    ("pins", [], RULES[:5]), ("sampler", [], ["cpu", "wall"]), ("pids", [], []), ("lsm", [], []),
])
def test_a_probe_is_off(gone, missing, gaps, doctor):
    doctor.policy(WATCH)
    doctor.probes(**{gone: "off"})
    rows = doctor.rows(1 if missing else 0)
    assert rows["kernel", gone]["state"] == "off" and rows["kernel", gone]["get"] == f"get {gone}" and not rows["kernel", gone]["missing"]
    assert [n for n in RULES if rows["policy", n]["missing"]] == missing
    assert [n for n in RULES if rows["policy", n]["state"] == "off"] == (["exec"] if gone == "tracing" else []) + missing  # `exec: log` runs without
    assert [n for n in RULES if rows["policy", n]["state"] == "partial"] == gaps
    assert all(rows["policy", n]["get"] == f"get {gone}" for n in missing + gaps)
    if missing:
        assert b"missing\n" in doctor.run().stdout


def test_processes_need_one_of_two(doctor):
    doctor.policy(WATCH)
    doctor.probes(tracing="off", pids="off")
    assert doctor.rows(1)["policy", "processes"]["missing"]
    doctor.probes(tracing="off", pids="partial")
    row = doctor.rows(1)["policy", "processes"]
    assert row["state"] == "partial" and not row["missing"] and "threads" in row["why"]


def test_required_is_needed(doctor):
    doctor.policy(WATCH.replace("exec: log", "exec: required"))
    doctor.probes(tracing="off")
    assert doctor.rows(1)["policy", "exec"]["missing"]


def test_a_policy_that_asks_for_nothing_misses_nothing(doctor):
    doctor.probes(**dict.fromkeys(NAMES, "off"))
    rows = doctor.rows(0)
    assert rows["policy", "watch"]["state"] == "on" and rows["kernel", "tracing"]["state"] == "off"


@pytest.mark.parametrize("script,says", [
    ("echo no such thing >&2; exit 3", "exit status 3: no such thing"), ("echo '{'", "exit status 0"), ("echo '{\"probes\":[]}'", "printed no probes"),
    ("echo '[]'", "printed no probes"), ("head -c 1000000 /dev/zero | tr '\\0' x", "exit status 0"), ("kill -9 $$", "exit status 137"), ("exit 0", "exit status 0"),
])
def test_a_pawld_that_does_not_say(script, says, doctor):
    doctor.script(script)
    rows = doctor.rows(0)
    assert says in rows["kernel", "probe"]["why"] and rows["kernel", "probe"]["state"] == "off" and rows["kernel", "probe"]["get"]
    doctor.policy(WATCH)
    rows = doctor.rows(1)
    assert rows["kernel", "probe"]["missing"] and rows["policy", "deny_exec"]["missing"]


def test_what_it_says_moves_no_cursor(doctor):
    doctor.says(json.dumps({"tier": "\x1b[2J", "says": "x\u202e", "probes": [{"name": "a\x1b]0;x\x07", "state": "on", "why": "\r\x9b1mé" + "ü" * 400, "get": "\n"}]}))
    for words in ((), ("--json",)):
        out = doctor.run(*words).stdout
        assert not any(b < 0x20 and b != 0x0A for b in out) and b"\x9b" not in out and "\u202e".encode() not in out, out


def test_it_says_that_it_waits(doctor):
    doctor.script(f"sleep 1.5\ncat {doctor.home}/answer\n")
    assert b"waiting for" in doctor.run().stderr


@pytest.mark.parametrize("spoil,row,get", [
    (lambda d: (d / "log").chmod(0o755), "log", "chmod 0700"), (lambda d: (d / "keys" / "entry.key").chmod(0o644), "keys/entry.key", "chmod 0600"),
    (lambda d: (d / "keys" / "entry.key").unlink(), "keys/entry.key", "pawl init"), (lambda d: (d / "state").rmdir(), "state", "pawl init"),
    (lambda d: d.chmod(0o777), "folder", "chmod go-w"), (lambda d: (d / "policy.yaml").write_text("pawl: 1\n"), "policy", "pawl policy check"),
    (lambda d: (d / "policy.yaml").chmod(0o666), "policy", "chmod go-w"), (lambda d: (d / "policy.yaml").unlink(), "policy", "pawl init"),
    (lambda d: ((d / "run").rmdir(), (d / "run").write_text("")), "run", "pawl init"),
])
def test_a_spoilt_folder(spoil, row, get, doctor):
    (doctor.dir / "run" / "operator").rmdir()
    spoil(doctor.dir)
    rows = doctor.rows(1)
    assert rows["folder", row]["state"] == "off" and get in rows["folder", row]["get"] and rows["folder", row]["missing"]


def test_no_folder_no_pawld(doctor, folder):
    done = subprocess.run([live.PAWL, "doctor", "--json", "--dir", folder / "none", "--pawld", folder / "none"], capture_output=True, env=doctor.env)
    rows = {r["name"]: r for r in json.loads(done.stdout)["rows"]}
    assert done.returncode == 1 and rows["pawld"]["missing"] and "pawl init" in rows["folder"]["get"] and rows["folder"]["missing"]


def test_python_of_the_current_folder_is_not_run(doctor, folder):
    """As root, in a folder of an agent's: nothing of it runs."""
    here, seen = folder / "here", folder / "seen"
    here.mkdir()
    for name in ("importlib", "contextlib", "types", "functools", "warnings", "sitecustomize", "pawl"):
        (here / f"{name}.py").write_text(f"open({str(seen)!r}, 'w')\n")
    (here / "pawld").write_text(f"#!/bin/sh\necho ran > {seen}\n")
    (here / "pawld").chmod(0o755)
    doctor.env["PATH"] = f":.:{doctor.env['PATH']}"
    rows = doctor.rows(0, cwd=here)
    assert not seen.exists() and str(here) not in rows["machine", "python"]["why"]
    alone = shutil.copy(live.PAWL, folder / "pawl")  # no pawld beside it: PATH is looked at, but not what is relative in it
    doctor.fake.unlink()
    done = subprocess.run([alone, "doctor", "--dir", doctor.dir], cwd=here, env=doctor.env, capture_output=True)
    assert done.returncode == 1 and b"not on PATH" in done.stdout and not seen.exists()
    doctor.env["PATH"] = f"{here}:{doctor.env['PATH']}"
    done = subprocess.run([alone, "doctor", "--dir", doctor.dir], cwd="/", env=doctor.env, capture_output=True)
    assert str(here / "pawld").encode() in done.stdout and seen.exists()


def test_python_package(doctor):
    assert doctor.rows(0)["machine", "python"]["state"] in ("on", "off")
    doctor.env["PYTHONPATH"] = "hooks/python"
    rows = doctor.rows(0, cwd=live.ROOT)
    assert rows["machine", "python"] ["state"] == "on" and "PYTHONPATH" in rows["machine", "python"]["why"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_as_somebody_else(doctor, folder):
    folder.chmod(0o755)
    done = doctor.run("--json", user=65534, group=65534, extra_groups=[])
    rows = {r["name"]: r for r in json.loads(done.stdout)["rows"]}
    assert done.returncode == 1 and rows["policy"]["state"] == "off" and rows["keys/entry.key"]["state"] == "partial" and "as root" in rows["keys/entry.key"]["get"]


def test_the_pawld_that_runs(doctor):
    with live.Live(WATCH.split("watch:")[0] + "...\n", doctor.dir) as d:
        d.start()
        rows = doctor.rows(0)
        assert rows["doors", "running"]["state"] == "on" and "pawld" in rows["doors", "running"]["why"] and f"pid {d.rest_pid}" in rows["doors", "running"]["why"]
        assert rows["doors", "agent_uid"]["state"] == "partial" and ("folder", "agent_uid") not in rows


def test_what_runs_is_believed_before_a_probe(doctor, fake_beside):
    fake_beside.script["status"] = lambda m: {"v": 1, "op": "status", "server": "pawld x", "mode": "shadow", "pid": {"rest": 7}, "log": {"state": "unavailable", "why": "disk full"},
                                              "watch": {"state": "partial", "tier": "C"},
                                              "probes": {"watch.tracing": {"state": "off", "why": "EPERM"}, "landlock": {"state": "off", "why": "another"}, "watch.lsm": {"state": "on", "why": "it attached"}, "else\x1b": {"state": "off", "why": "\x1b[1m"}}}
    doctor.policy(WATCH)
    doctor.probes(lsm="off")
    rows = doctor.rows(1)
    assert doctor.doc["tier"] == "C" and doctor.doc["from"] == "pid 7"
    assert rows["kernel", "tracing"]["state"] == "off" and rows["kernel", "tracing"]["why"] == "EPERM" and rows["kernel", "lsm"]["state"] == "on"
    assert rows["kernel", "landlock"]["state"] == "on" and rows["doors", "landlock"]["state"] == "off"
    assert rows["policy", "deny_exec"]["missing"] and rows["doors", "mode"]["state"] == "partial"
    assert rows["doors", "log"]["missing"] and "disk full" in rows["doors", "log"]["why"] and rows["doors", "watch_door"]["missing"]


@pytest.fixture
def fake_beside(doctor):
    from fake_door import FakeDoor

    (doctor.dir / "run" / "operator").rmdir()
    door = FakeDoor(doctor.dir)
    yield door
    door.stop()
