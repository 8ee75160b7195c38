"""Shared by tests/operator. `door` is the one place that knows which operator door a test talks to: a scripted one, and the real one
where the pawld of PAWL_BUILD has it."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import live  # noqa: E402
from fake_door import FakeDoor  # noqa: E402

PASSPHRASE = "correct horse"
POLICY = """pawl: 1
name: operator-test
default: deny
rules:
  - {id: ask, review: [held]}
...
"""


@pytest.fixture(scope="module", autouse=True)
def without_watch() -> Iterator[None]:
    """What is asked here is not about the watch, and without it a pawld starts three times as fast."""
    was, live.Live.options = live.Live.options, ("--no-watch",)
    yield
    live.Live.options = was


def pytest_collection_modifyitems(items):
    if not live.PAWL.exists():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no pawl in {live.BUILD}: build it, or set PAWL_BUILD"))


class RealDoor:
    """The same few verbs on a live pawld."""

    def __init__(self, folder: pathlib.Path) -> None:
        if not live.PAWLD.exists():
            pytest.skip(f"no pawld in {live.BUILD}: build it, or set PAWL_BUILD")
        self.live = live.Live(POLICY, folder)
        self.dir, self.socket = folder, self.live.operator
        self.live.start()
        with live.Stream(self.socket) as s:
            if "error" in s.ask({"v": 1, "op": "nonce"}):
                self.stop()
                pytest.skip("this pawld's operator door has no signed ops")
        self.stream = live.Stream(self.live.agent)
        self.session = live.Session(self.stream)

    def hold(self, tool: str = "held", args: Any = None) -> str:
        return self.session.decide(tool, args)["review"]

    def state(self, review: str) -> str:
        with live.Stream(self.socket) as s:
            return s.ask({"v": 1, "op": "review.show", "review": review})["state"]

    def reload_operators(self) -> None:
        count = sum('"kind":"key"' in line for line in self.log())
        os.kill(self.live.process.pid, signal.SIGHUP)
        live.until("pawld read its operators", lambda: sum('"kind":"key"' in line for line in self.log()) > count)

    def log(self) -> list[str]:
        return self.live.pawl("log", "show", "--dir", str(self.dir), "--json").stdout.splitlines()

    def stop(self) -> None:
        self.live.stop()


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """Short, since a socket's path has 107 bytes and pytest's own folders are long."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pawl-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def fake(folder) -> Iterator[FakeDoor]:
    door = FakeDoor(folder / "d")
    yield door
    door.stop()


@pytest.fixture(params=["fake", "real"])
def door(request, folder):
    d = FakeDoor(folder / "d") if request.param == "fake" else RealDoor(folder / "d")
    yield d
    d.stop()


class Person:
    """Runs `pawl` with an environment of its own: no key and no folder of this machine's user is in reach."""

    def __init__(self, home: pathlib.Path, dir: pathlib.Path) -> None:
        self.home, self.dir, self.key = home, dir, home / "k"
        home.mkdir()
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "PAWL_DIR": str(dir), "PAWL_KEY": str(self.key), "LC_ALL": "C.UTF-8", "USER": "anna",
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}

    def run(self, *words: str, stdin: str | bytes = b"", passphrase: str | None = None, **env: str) -> subprocess.CompletedProcess:
        """stdout and stderr as bytes: what reaches the terminal is what is tested."""
        more, fds = {**self.env, **env}, []
        if passphrase is not None:
            r, w = os.pipe()
            os.write(w, passphrase.encode() + b"\n")
            os.close(w)
            fds, more["PAWL_PASSPHRASE_FD"] = [r], str(r)
        try:
            return subprocess.run([str(live.PAWL), *words], input=stdin.encode() if isinstance(stdin, str) else stdin, capture_output=True,
                                  env=more, pass_fds=fds, timeout=30 * live.SLOW, start_new_session=True)
        finally:
            for fd in fds:
                os.close(fd)

    def ok(self, *words: str, **how: Any) -> str:
        done = self.run(*words, **how)
        assert done.returncode == 0, (words, done)
        return done.stdout.decode()

    def json(self, *words: str, **how: Any) -> Any:
        return json.loads(self.ok(*words, **how))


@pytest.fixture
def person(folder) -> Person:
    return Person(folder / "home", folder / "d")


@pytest.fixture
def anna(person, door) -> Person:
    """Has a key without a passphrase and is enrolled."""
    vkey = person.ok("key", "new", "--name", "anna", "--no-passphrase").strip()
    person.ok("operator", "add", "anna", vkey)
    door.reload_operators()
    return person
