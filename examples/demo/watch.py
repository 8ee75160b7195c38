"""The last part of the demo: what really runs. A program that nobody may start, a script that does not end, a fork bomb; and the log of them.

The programs in the kernel need root. As root, or where sudo asks for no password, pawld is started with it and gives its own process that
answers the user back; what is run is the user's own all along. Where they cannot be had, the demo says why and shows what holds without.
"""
from __future__ import annotations

import getpass
import json
import os
import pathlib
import pwd
import shlex
import shutil
import subprocess
import time
from typing import Any

from stage import WAIT, Failed, alive, command, expect, head, note, paint, say, show, wait_for

DIR = pathlib.Path("build/demo-watch")
POLICY = "examples/demo/watch.yaml"
FORBIDDEN = 'dd if=/dev/zero of=zeros bs=1 count=1; echo "dd ended with status $?"'
RUNAWAY = "while :; do :; done"
BOMB = "import os, resource; resource.setrlimit(resource.RLIMIT_NPROC, ({0}, {0})); [os.fork() for _ in iter(int, 1)]"
KILLED = 128 + 9


class Watched:
    """One pawld with the kernel's help, or without; and commands under its watch."""

    def __init__(self, build: pathlib.Path) -> None:
        self.shown, self.pawl, self.pawld = str(build / "pawl"), str((build / "pawl").absolute()), str((build / "pawld").absolute())
        self.dir, self.work = DIR.absolute(), (DIR / "work").absolute()
        self.process: subprocess.Popen[bytes] | None = None
        self.root = os.geteuid() == 0
        self.sudo: list[str] = []
        self.probed: dict[str, Any] = {}

    # ---- what there is

    def probe(self) -> None:
        """As this user; then with sudo, where that is to be had without a question."""
        self.probed = self.ask(self.sudo)
        if self.kernel or self.root or shutil.which("sudo") is None:
            return
        if subprocess.run(["sudo", "-n", "true"], capture_output=True, stdin=subprocess.DEVNULL).returncode != 0:
            note("sudo would ask for a password here, and the demo does not: it goes on without.")
            return
        say("     the programs that watch in the kernel need root; this asks sudo for pawld alone, never for what is run:")
        say(f"     $ sudo -n {self.pawld} --probe")
        self.probed, without = self.ask(["sudo", "-n"]), self.probed
        if self.kernel:
            self.sudo = ["sudo", "-n"]
        else:
            self.probed = without

    def ask(self, before: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(command(*before, self.pawld, "--probe").stdout)
        return found

    def row(self, name: str) -> dict[str, Any]:
        return next((p for p in self.probed["probes"] if p["name"] == name), {"state": "off", "why": "", "get": ""})

    @property
    def kernel(self) -> bool:
        return self.row("tracing")["state"] == "on"

    # ---- pawld

    def start(self) -> None:
        as_user = ["--user", getpass.getuser()] if self.sudo else []
        words = [*self.sudo, self.pawld, "--dir", str(self.dir), *as_user]
        if self.sudo:
            say(f"     $ {' '.join(words)}")
        said = self.dir / "pawld.err"
        seen = said.stat().st_size if said.exists() else 0
        with said.open("ab") as err:
            process = self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        wait_for("pawld gets ready", lambda: b"pawld: ready: agent " in said.read_bytes()[seen:] or process.poll() is not None)
        if process.poll() is not None:
            raise Failed(f"pawld does not get ready:\n{said.read_text(errors='replace').strip()}")

    def signal(self, pid: int, name: str) -> None:
        """A process that sudo started is not ours to signal. By the shell: a small machine has no other `kill`."""
        subprocess.run([*self.sudo, "sh", "-c", 'kill -s "$1" "$2"', "sh", name, str(pid)], stdin=subprocess.DEVNULL, check=False)

    def stop(self) -> None:
        """Nothing that was started here stays, least of all as root."""
        if self.process is None:
            return
        pid = int((self.dir / "run" / "pawld.pid").read_text()) if self.sudo else self.process.pid
        self.signal(pid, "TERM")
        try:
            status = self.process.wait(WAIT)
            expect(f"pawld stops on TERM with status 0, not {status}", status == 0)
        except subprocess.TimeoutExpired:
            self.signal(pid, "KILL")
            raise
        finally:
            self.process = None
        expect("and its first process is gone", not alive(pid))

    def kill(self) -> None:
        """The watcher first: it would start the rest again."""
        assert self.process is not None
        status = json.loads(command(self.pawl, "status", "--json", "--dir", str(self.dir)).stdout)
        pids = [status["pid"]["watcher"], status["pid"]["rest"]]
        for pid in pids:
            self.signal(pid, "KILL")
        self.process.wait(WAIT)
        self.process = None
        wait_for("the killed processes are gone", lambda: not any(alive(pid) for pid in pids))

    # ---- commands

    @property
    def user(self) -> list[str]:
        return ["--user", "nobody"] if self.root else []

    def run(self, *words: str, want: int, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        shown = shlex.join(["pawl", "run", *self.user, *more, "--", *words])
        say(f"$ {shown}")
        began = time.monotonic()
        done = subprocess.run([self.pawl, "run", "--dir", str(self.dir), "--quiet", *self.user, *more, "--", *words], cwd=self.work, capture_output=True,
                              text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=60)
        for line in (done.stdout + done.stderr).splitlines():
            say(f"  {line}")
        say(f"  exit status {done.returncode}, after {time.monotonic() - began:.2f} s")
        expect(f"the status is {want}, not {done.returncode}", done.returncode == want)
        return done

    def entries(self) -> list[dict[str, Any]]:
        text = command(self.pawl, "log", "show", "--kind", "watch", "--json", "--dir", str(self.dir)).stdout
        return [json.loads(line) for line in text.splitlines()]

    def last(self, action: str, **want: Any) -> dict[str, Any]:
        """The newest entry of that action: it is written after the deed, so it may have to be waited for."""
        def found() -> list[dict[str, Any]]:
            return [e for e in self.entries() if e["action"] == action and all(e.get(k) == v for k, v in want.items())]

        wait_for(f"an entry {action} {want} in the log", found)
        return found()[-1]


def bomb(user: str) -> str:
    """With a bound of its own, for the day that all else fails: it counts all that this user runs, so it lies above that."""
    uid, runs = pwd.getpwnam(user).pw_uid, 0
    for status in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            runs += len(os.listdir(status / "task")) if status.stat().st_uid == uid else 0
        except OSError:
            pass
    return BOMB.format(runs + 300)


def folder(w: Watched) -> None:
    DIR.mkdir(mode=0o700)
    w.work.mkdir(mode=0o700)
    text = pathlib.Path(POLICY).read_text()
    (DIR / "policy.yaml").touch(mode=0o600)
    (DIR / "policy.yaml").write_text(text if w.kernel else text.replace("wall: 20s", "wall: 3s "))  # there the clock is what ends a run
    command(w.pawl, "init", "--dir", str(w.dir), "--name", "demo.example/pawl/2")
    if w.root:
        shutil.chown(w.work, "nobody")


def in_the_kernel(w: Watched) -> None:
    head("13. A forbidden program is stopped before its first instruction")
    done = w.run("sh", "-c", FORBIDDEN, want=0)
    expect(f"dd was killed: {done.stdout}", f"status {KILLED}" in done.stdout)
    expect("it did nothing: the file that it would have made first is not there", not (w.work / "zeros").exists())
    w.last("kill", why="deny_exec")

    head("14. A script that would never end is stopped at its limit")
    w.run("sh", "-c", RUNAWAY, want=KILLED)
    w.last("end", why="cpu")

    head("15. A fork bomb is bounded")
    w.run("python3", "-c", bomb("nobody" if w.root else getpass.getuser()), want=KILLED)
    end = w.last("end", why="processes")
    say(f"     at most {end['peak']} processes lived at the same time; the limit is 50; all of them were ended")
    expect(f"a bomb does not get far over its limit: {end['peak']}", end["peak"] <= 200)


def without_pawld(w: Watched) -> None:
    head("16. pawld is killed with SIGKILL; what the kernel holds goes on")
    if w.row("pins")["state"] != "on":
        note(f"Not here: {w.row('pins')['why']}. To get it: {w.row('pins')['get']}.")
        return
    words = ["pawl", "run", *w.user, "--", "sh", "-c", f"echo up; read line; {FORBIDDEN}; read line; echo bye"]
    say(f"$ {shlex.join(words)}")
    with subprocess.Popen([w.pawl, "run", "--dir", str(w.dir), "--quiet", *words[2:]], cwd=w.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as run:
        assert run.stdin and run.stdout
        try:
            expect("it runs", run.stdout.readline() == "up\n")
            w.kill()
            note("no pawld runs; now it starts dd:")
            run.stdin.write("now\n")
            run.stdin.flush()
            said = run.stdout.readline().strip()
            say(f"  {said}")
            expect(f"dd was killed: {said}", said.endswith(f"status {KILLED}") and not (w.work / "zeros").exists())
            w.start()
            wait_for("pawld tells of it after its start", lambda: sum(e["action"] == "kill" for e in w.entries()) == 2)
            note("pawld was started again: it has found the tree, and the kill that it did not see is in the log.")
            run.stdin.write("go on\n")
            run.stdin.close()
            expect("and the command goes on to its end", run.stdout.read() == "bye\n" and run.wait(WAIT) == 0)
        finally:
            run.kill()  # where all went well it has ended; with it its tree ends


def without_the_kernel(w: Watched) -> None:
    head("13. What holds without the programs in the kernel")
    row = w.row("tracing")
    note(f"Programs cannot be stopped here before they run, and forks not be counted: {row['why']}. To get it: {row['get']}.")
    note("A run whose policy needs that is refused:")
    w.run("sh", "-c", FORBIDDEN, want=125)
    note("With --allow-degraded, which the log tells, it runs. It sees no policy and no key, and writes in its own folder only:")
    more = ("--allow-degraded",)
    done = w.run("sh", "-c", f"cat {w.dir}/keys/entry.key; echo here > mine; echo there > ../not-mine; ls", want=0, more=more)
    if w.row("landlock")["state"] == "on":
        expect("the key is not shown, the other folder not written to", "PRIVATE" not in done.stdout and not (w.dir / "not-mine").exists())
        expect("its own folder is", (w.work / "mine").exists())
    head("14. A script that would never end is stopped at its limit")
    began = time.monotonic()
    w.run("sh", "-c", "while sleep 1; do :; done", want=KILLED, more=more)
    expect("by the wall clock, after 3 s", 3 <= time.monotonic() - began < 40)


def watched(build: pathlib.Path) -> None:
    w = Watched(build)
    head("12. What really runs: can this machine watch it?")
    w.probe()
    say(f"     {paint('note', 'tier ' + w.probed['tier'])}: {w.probed['says']}")
    folder(w)
    try:
        w.start()
        if w.kernel:
            in_the_kernel(w)
            without_pawld(w)
        else:
            without_the_kernel(w)
        noted = json.loads(command(w.pawl, "log", "verify", "--json", "--dir", str(DIR), want=None).stdout)
        w.stop()
    finally:
        if w.process is not None:
            w.stop()

    head("17. All of that is in a signed log, too" if w.kernel else "15. All of that is in a signed log, too")
    show(command(w.shown, "log", "show", "--kind", "watch", "--dir", str(DIR)))
    note("Its newest entry was noted before pawld stopped, as somebody on another machine would:")
    show(command(w.shown, "log", "verify", "--dir", str(DIR), "--at-least", f"{noted['last']}:{noted['last_hash']}"))
