"""Fixtures: a scripted daemon for what a healthy one never does, and the real one for the rest.

PAWL_BUILD names the folder with pawld and pawl (default build/gcc-plain). Without the binaries the tests of the real
daemon are skipped (tests/conftest.py: aloud, and not where PAWL_REQUIRE=all).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hooks" / "python"))
sys.path.insert(0, str(Path(__file__).parent))

import pawl  # noqa: E402
from fake_daemon import FakeDaemon  # noqa: E402


def missing(what: str) -> None:
    pytest.skip(f"{what} is missing")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, since a socket's path has 107 bytes and pytest's own folders are long."""
    path = Path(tempfile.mkdtemp(prefix="pawl-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No test may reach a pawld of this machine, or another test's process session."""
    from pawl import _client, _wire

    monkeypatch.setenv("PAWL_SOCKET", str(folder / "a.sock"))
    monkeypatch.setattr(_client, "_default", None)
    monkeypatch.setattr(_client, "_run", None)
    monkeypatch.delenv("PAWL_SESSION_FD", raising=False)
    monkeypatch.setattr(_wire, "RESTART_GRACE", 0.3)


@pytest.fixture
def fake(folder: Path) -> Iterator[FakeDaemon]:
    with FakeDaemon(str(folder / "a.sock")) as daemon:
        yield daemon


def opened(fake: FakeDaemon, timeout: float) -> Iterator[pawl.Session]:
    s = pawl.Session.open(socket=fake.path, timeout=timeout)
    yield s
    fake.script.clear()
    s._ended = "closed"  # no farewell: some tests have killed the daemon


@pytest.fixture
def session(fake: FakeDaemon) -> Iterator[pawl.Session]:
    yield from opened(fake, 5.0)


@pytest.fixture
def hasty(fake: FakeDaemon) -> Iterator[pawl.Session]:
    """For tests that wait for the time-out."""
    yield from opened(fake, 0.3)


# ---- the real daemon ----


def real_commands(build: Path, where: Path) -> tuple[list[str], list[str], Path, Path]:
    """The one place that knows pawld's command line: (init, serve, agent socket, policy file)."""
    return (
        [str(build / "pawl"), "init", str(where)],
        [str(build / "pawld"), "--dir", str(where)],
        where / "run" / "agent.sock",
        where / "policy.yaml",
    )


class RealDaemon:
    """One with a person: anna, an enrolled operator whose key has no passphrase."""

    def __init__(self, build: Path, where: Path, policy: str) -> None:
        init, self.command, self.socket, self.policy = real_commands(build, where)
        subprocess.run(init, check=True, capture_output=True, timeout=20)
        self.policy.write_text(policy)
        self.output = open(where / "pawld.out", "ab")
        self.process: subprocess.Popen[bytes] | None = None
        self.build, self.where = build, where
        key = self.pawl("key", "new", "--name", "anna", "--no-passphrase")
        self.pawl("operator", "add", "anna", key.strip())

    def pawl(self, *words: str) -> str:
        """Anna's command line."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.where), "PAWL_DIR": str(self.where)}
        env |= {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        env["PAWL_KEY"] = str(self.where / "anna.key")
        done = subprocess.run([str(self.build / "pawl"), *words], env=env, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=self.output, stderr=self.output, start_new_session=True)
        end = time.monotonic() + 10
        while time.monotonic() < end and self.process.poll() is None:
            try:
                pawl.hello(self.socket, 1.0)
                return
            except pawl.Unavailable:
                time.sleep(0.02)
        raise RuntimeError(f"pawld did not start: {Path(self.output.name).read_text(errors='replace')[-2000:]}")

    def stop(self, with_signal: int = signal.SIGTERM) -> None:
        p, self.process = self.process, None
        if p is not None:
            if with_signal == signal.SIGKILL:
                os.killpg(p.pid, signal.SIGKILL)  # watcher and rest
            else:
                p.send_signal(with_signal)
            p.wait(10)
            said = Path(self.output.name).read_text(errors="replace")
            assert "Sanitizer: " not in said and ": runtime error: " not in said, said[-6000:]


POLICY = """\
pawl: 1
name: python-tests
default: deny
tools:
  paid: {cost: 0.1 USD}
rules:
  - {id: work, allow: [work, paid, slow, stream, unpriced]}
  - {id: ask,  review: [risky]}
  - {id: never, deny: [forbidden]}
budgets:
  run: {per: session, match: paid, limit: 1 USD}
...
"""


@pytest.fixture
def binaries() -> Path:
    build = Path(os.environ.get("PAWL_BUILD", ROOT / "build" / "gcc-plain"))
    if not build.is_absolute():
        build = ROOT / build
    for name in ("pawld", "pawl"):
        if not (build / name).exists():
            missing(f"{name} (looked in {build.relative_to(ROOT) if build.is_relative_to(ROOT) else build})")
    return build


@pytest.fixture
def real(run_real: RunReal) -> RealDaemon:
    return run_real(POLICY)


RunReal = Callable[[str], RealDaemon]


@pytest.fixture
def run_real(binaries: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunReal]:
    """A pawld with a policy of the test's own."""
    daemons: list[RealDaemon] = []

    def run(policy: str) -> RealDaemon:
        daemon = RealDaemon(binaries, folder / "d", policy)
        daemons.append(daemon)
        daemon.start()
        monkeypatch.setenv("PAWL_SOCKET", str(daemon.socket))
        return daemon

    yield run
    for daemon in daemons:
        daemon.stop()
        daemon.output.close()
