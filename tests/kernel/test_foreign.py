"""Other people's programs run under watch with every limit on as they do without: nothing is killed, nothing is lost, the result is the same."""
import hashlib
import base64
import os
import pathlib
import shutil
import subprocess
import sys
import time
import uuid
import zipfile

import pytest

import foreign
from live import PAWL, SLOW, until
from watched import Bound, Watched, folder_for_all, policy, skip_unless_root, tell


@pytest.fixture(scope="module")
def watch():
    skip_unless_root()
    with Watched(policy(exec="log", deny_exec=["/usr/bin/nc"], processes=200, fork_rate="5000/s", exec_rate="5000/s", cpu="20m", memory="4GiB", wall="20m")) as w:
        yield w.start()


@pytest.fixture
def folder():
    path = folder_for_all()
    yield path
    shutil.rmtree(path)


def unharmed(watch, *cmd, seconds=600, spare=0, **how):
    """spare: processes that may outlive the first one by a moment, and are then ended with the tree."""
    done, end = watch.ended(*cmd, seconds=seconds, **how)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert end["why"] == "ended" and end["killed"] <= spare and end["lost"] == 0, end
    assert not watch.watch_rows(action="kill", session=end["session"])
    return done, end


def test_configure_and_make(watch, folder):
    try:
        where = foreign.unpack(folder)
    except RuntimeError as e:
        pytest.skip(f"this needs the source of Debian's {foreign.PACKAGE}: {e}")
    started = time.monotonic()
    _, end = unharmed(watch, "/bin/sh", "-c", "FORCE_UNSAFE_CONFIGURE=1 ./configure --quiet && make -j2 && ./hello > said", cwd=where)
    tell("configure && make -j2 under watch", seconds=time.monotonic() - started, forks=end["forks"], execs=end["execs"], peak=end["peak"])
    assert "ello, world" in (where / "said").read_text()
    assert end["execs"] > 500, end


def wheel(folder):
    """A wheel made by hand: no network, no build tools."""
    info, path = "fromhere-1.0.dist-info", folder / "fromhere-1.0-py3-none-any.whl"
    files = {"fromhere/__init__.py": "word = 'from here'\n",
             f"{info}/METADATA": "Metadata-Version: 2.1\nName: fromhere\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
             f"{info}/entry_points.txt": "[console_scripts]\nfromhere = fromhere:main\n"}
    files["fromhere/__init__.py"] += "def main():\n    print(word)\n"
    record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t.encode())}\n"
                     for n, t in files.items()) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as z:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            z.writestr(name, text)
    return path


def test_pip_into_a_venv(watch, folder):
    made = folder / "venv"
    unharmed(watch, "/bin/sh", "-c", f"{sys.executable} -m venv {made} && {made}/bin/pip install --quiet --no-index --disable-pip-version-check {wheel(folder)}",
             env=watch.bound.env(HOME=str(folder), PIP_CONFIG_FILE="/dev/null"))
    done, _ = unharmed(watch, made / "bin" / "fromhere")
    assert done.stdout == "from here\n"


def test_git_clone(watch, folder):
    repository = folder / "from"
    env = watch.bound.env(HOME=str(folder), GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")
    git = lambda *a, cwd=repository: subprocess.run(["git", *a], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout  # noqa: E731
    repository.mkdir()
    git("init", "-q")
    for i in range(30):
        (repository / f"file{i}").write_text(f"{i}\n" * 500)
        git("add", ".")
        git("commit", "-q", "-m", f"the {i}th")
    unharmed(watch, "/bin/sh", "-c", f"git clone -q file://{repository} {folder}/to && git -C {folder}/to fsck --strict && git -C {folder}/to gc -q", env=env)
    assert git("rev-parse", "HEAD", cwd=folder / "to") == git("rev-parse", "HEAD")


def test_python_with_threads_and_processes(watch):
    code = ("import multiprocessing as m, concurrent.futures as c, subprocess\n"
            "with m.get_context('spawn').Pool(4) as p: assert p.map(abs, range(-50, 0)) == list(range(50, 0, -1))\n"
            "with c.ThreadPoolExecutor(20) as e: assert all(x.returncode == 0 for x in e.map(lambda _: subprocess.run(['true']), range(40)))\n"
            "print('whole')\n")
    done, _ = unharmed(watch, sys.executable, "-c", code, spare=1)  # multiprocessing's resource tracker
    assert done.stdout == "whole\n"


# ---- a person's shell
class Terminal:
    """A tmux of its own: what is typed, and what the screen shows."""

    def __init__(self, bound, folder, line):
        self.name = f"pawl-{uuid.uuid4().hex[:8]}"
        self.bound, self.folder = bound, folder
        self.tmux("new-session", "-d", "-x", "100", "-y", "40", line)

    def tmux(self, *words):
        p = self.bound.popen("tmux", "-S", self.folder / "tmux", "-f", "/dev/null", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = p.communicate(timeout=20 * SLOW)
        assert p.returncode == 0, (words, err)
        return out

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def key(self, name):
        self.tmux("send-keys", name)

    def screen(self):
        return self.tmux("capture-pane", "-p", "-S", "-200")

    def shows(self, what, seconds=20):
        try:
            until(what, lambda: any(line.rstrip() == what or line.rstrip().endswith(f"$ {what}") for line in self.screen().splitlines()), seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}; the screen:\n{self.screen()}") from None


@pytest.mark.skipif(shutil.which("tmux") is None, reason="this needs tmux")
def test_an_interactive_shell_with_job_control(watch, folder):
    bash = "bash --norc --noprofile -i"
    line = f"env PS1='$ ' HOME={folder} bash --norc --noprofile -i"
    t = Terminal(watch.bound, folder, line)
    try:
        before = len(watch.watch_rows(action="attach"))
        t.type(f"{PAWL} run --dir {watch.dir} -- env PS1='in$ ' {bash}; echo status $?")
        until("the shell is under watch", lambda: watch.watch_rows(action="attach")[before:], 20)
        session = watch.last_attach()["session"]
        t.type("echo $((40 + 2)) up; tty >/dev/null && echo has a terminal")
        t.shows("42 up")
        t.shows("has a terminal")
        t.type("sleep 300")
        until("sleep runs in front", lambda: t.tmux("list-panes", "-F", "#{pane_current_command}").strip() == "sleep", 20)
        t.key("C-z")
        until("it is stopped", lambda: "Stopped" in t.screen(), 20)
        t.type("jobs -s | wc -l")
        t.shows("1")
        t.type("fg")
        until("sleep is in front again", lambda: t.tmux("list-panes", "-F", "#{pane_current_command}").strip() == "sleep", 20)
        t.key("C-c")
        t.type("echo was $?")
        t.shows("was 130")
        t.tmux("resize-window", "-x", "77", "-y", "33")
        t.type("echo size $(stty size)")
        t.shows("size 33 77")
        t.type("exit 7")
        t.shows("status 7")
        end = watch.end_of(session)
        assert end["why"] == "ended" and end["killed"] == 0, end
        t.type("echo outer still here $((1 + 1))")
        t.shows("outer still here 2")
    finally:
        t.tmux("kill-server")
