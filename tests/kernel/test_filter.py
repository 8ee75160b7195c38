"""E15: a watched tree has no system call that goes past what is watched, or that alters a process that was looked at."""
import subprocess

import pytest

from watched import Bound, Watched, policy, program, skip_unless_root

REFUSED = ["io_uring_setup", "ptrace", "process_vm_writev", "pidfd_getfd", "int80", "AF_PACKET", "AF_VSOCK"]
ALLOWED = ["AF_UNIX", "AF_INET"]


def rows(text):
    return {line.split()[0]: line.split()[1] for line in text.splitlines()}


def test_bare_they_are_allowed():
    skip_unless_root()
    bound = Bound()
    try:
        got = rows(bound.popen(program("ring"), stdout=subprocess.PIPE, text=True).communicate()[0])
    finally:
        bound.end()
    assert {**got, "int80": "allowed"} == dict.fromkeys(REFUSED + ALLOWED, "allowed")  # a kernel may have no other numbers


@pytest.fixture(scope="module")
def watch():
    skip_unless_root()
    with Watched(policy(wall="60s")) as w:
        yield w.start()


@pytest.mark.parametrize("user", [None, "nobody"], ids=["root", "nobody"])
def test_under_watch_they_are_refused(watch, user):
    done = watch.done(program("ring"), user=user)
    assert done.returncode == 0, done
    assert rows(done.stdout) == {**dict.fromkeys(REFUSED, "refused"), **dict.fromkeys(ALLOWED, "allowed")}, done.stdout
