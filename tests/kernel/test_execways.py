"""A denied program does not run its first instruction, however it is started (P3 at the kernel, E07, E09, D06, D07, U12)."""
import json
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from live import SLOW
from watched import SHORT, Bound, Watched, folder_for_all, policy, program, skip_unless_root, tell

RUNS = 100 if SHORT else 1000
RACES = 1000 if SHORT else 10000
WAYS = subprocess.run([program("execways"), "list"], capture_output=True, text=True, check=True).stdout.split()
FILELESS = {"memfd", "memfd-proc", "deleted"}
AROUND = {"copy"}  # what docs/threat-model.md says that a list of files does not stop
# the same race in a name as the victims': equal length
NAMES = {"allowed": "racer-a", "denied": "racer-d"}
SECRET = "sk-test-51H8xYzQwErTyUiOp"


class World:
    def __init__(self):
        self.folder = folder_for_all()
        for name in ("victim", "victim-dyn", "quiet"):
            shutil.copy(program(name), self.folder / name)
        shutil.copy(program("quiet"), self.folder / NAMES["allowed"])
        shutil.copy(program("victim"), self.folder / NAMES["denied"])
        # D06, D07 name rm and cat: copies, so that the machine's own keep working for everybody else
        for name in ("rm", "cat"):
            shutil.copy(f"/bin/{name}", self.folder / name)
        self.denied = [self.folder / x for x in ("victim", "victim-dyn", NAMES["denied"], "rm", "cat")]


@pytest.fixture(scope="module")
def world():
    skip_unless_root()
    w = World()
    yield w
    shutil.rmtree(w.folder)


@pytest.fixture(scope="module")
def watch(world):
    with Watched(policy(exec="log", deny_exec=world.denied)) as w:
        yield w.start()


def scratch(world, name):
    path = world.folder / f"scratch-{name}"
    path.mkdir(exist_ok=True)
    path.chmod(0o777)
    return path


@pytest.mark.parametrize("way", WAYS)
def test_bare_the_way_works(world, way):
    bound = Bound()
    try:
        p = bound.popen(program("execways"), way, world.folder / "victim", 20, scratch(world, "bare"), stdout=subprocess.PIPE, text=True)
        row = json.loads(p.communicate(timeout=60 * SLOW)[0])
        assert (row["ran"], row["bytes"]) == (20, 20), row
    finally:
        bound.end()


# every way with the victim that needs no loader; with the dynamic one those that differ by what is loaded first
CASES = [(w, "victim") for w in WAYS if w not in AROUND] + [(w, "victim-dyn") for w in ("execve", "script", "thread", "memfd", "loader")]


@pytest.mark.parametrize("way,victim", CASES)
def test_no_instruction_of_it_runs(watch, world, way, victim):
    done, end = watch.ended(program("execways"), way, world.folder / victim, RUNS, scratch(world, "watched"), seconds=180)
    assert done.returncode == 0, done
    row = json.loads(done.stdout)
    tell(f"exec by {way} of {victim}", **{k: row[k] for k in ("runs", "killed", "refused", "bytes")})
    assert (row["bytes"], row["ran"], row["other"]) == (0, 0, 0), row
    assert row["killed"] == RUNS, row
    why = "fileless" if way in FILELESS else "deny_exec"
    assert watch.kills(end["session"], why) == RUNS and watch.kills(end["session"]) == RUNS, watch.watch_rows(session=end["session"])


def test_as_a_plain_user_too(watch, world):
    done, _ = watch.ended(program("execways"), "execve", world.folder / "victim", RUNS, scratch(world, "watched"), user="nobody", seconds=180)
    row = json.loads(done.stdout)
    assert (row["bytes"], row["killed"]) == (0, RUNS), row


@pytest.mark.parametrize("way", sorted(AROUND))
def test_known_ways_around_are_still_there(watch, world, way):
    """docs/threat-model.md names them. The day that one is closed, this fails, and the page is mended."""
    done, _ = watch.ended(program("execways"), way, world.folder / "victim", 20, scratch(world, "around"))
    assert json.loads(done.stdout)["ran"] == 20, done


def test_a_name_that_changes_while_exec_reads_it(watch, world):
    """E09: no denied program survives, and the allowed ones run on."""
    a, d = (world.folder / NAMES[x] for x in ("allowed", "denied"))
    done, end = watch.ended(program("argrace"), a, d, RACES, seconds=300)
    row = json.loads(done.stdout)
    tell("exec race", **row)
    assert (row["bytes"], row["denied"], row["other"]) == (0, 0, 0), row
    assert row["killed"] > 0 and row["allowed"] > 0, f"no race took place: {row}"
    assert watch.kills(end["session"], "deny_exec") == row["killed"], row


# ---- D06, D07: what text matching cannot see
def lines(w):
    f = w.folder
    k = f / "k"
    return {
        "plain": f"{f}/rm {k}", "env -i": f"env -i {f}/rm {k}", "xargs": f"echo {k} | xargs {f}/rm", "setarch": f"setarch {os.uname().machine} {f}/rm {k}",
        "a wrapper of one's own": f"{f}/w {f}/rm {k}", "sh -c": f"sh -c '{f}/rm {k}'", "nohup": f"nohup {f}/rm {k} >/dev/null", "a variable": f"p={f}/r; ${{p}}m {k}",
        "find": f"find {k} -exec {f}/rm {{}} +", "python": f"python3 -c 'import os; os.execv(\"{f}/rm\", [\"rm\", \"{k}\"])'", "eval": f"eval \"$(printf '{f}/%s {k}' rm)\"",
        "braces": f"{{ {f}/cat {k}; }}", "process substitution": f"{f}/cat <(ls) {k}", "command substitution": f"echo $({f}/cat {k})",
        "here-string": f"{f}/cat {k} <<< x", "a subshell": f"({f}/cat {k})", "a function": f"g() {{ {f}/cat \"$1\"; }}; g {k}", "a pipe": f"{f}/cat {k} | tee /dev/null",
        "a link of another name": f"ln -sf {f}/cat {f}/scratch-line/less; {f}/scratch-line/less {k}",
    }


@pytest.mark.parametrize("name", list(lines(type("W", (), {"folder": pathlib.Path("/x")}))))
def test_a_shell_line_is_stopped_at_exec(watch, world, name):
    key = world.folder / "k"
    key.write_text("the secret\n")
    key.chmod(0o666)
    scratch(world, "line")
    wrapper = world.folder / "w"
    wrapper.write_text("#!/bin/sh\nexec \"$@\"\n")
    wrapper.chmod(0o755)
    done, end = watch.ended("/bin/bash", "-c", lines(world)[name], user="nobody")
    assert "the secret" not in done.stdout + done.stderr and key.exists(), done
    assert watch.kills(end["session"], "deny_exec") >= 1, f"{done}\n{watch.watch_rows(session=end['session'])}"


def test_arguments_with_secrets_stay_out_of_the_log(watch, world):
    """U12: neither entries nor the operational log have them; files are 0600."""
    done, end = watch.ended("/bin/sh", "-c", f"/bin/echo --token={SECRET} >/dev/null; {world.folder}/cat --password {SECRET}; exit 0")
    assert done.returncode == 0, done
    assert watch.kills(end["session"], "deny_exec") == 1
    watch.stop()
    try:
        found = [str(p) for p in watch.dir.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
        assert not found, found
        assert not any(SECRET in line for line in watch.lines)
        for path in [*watch.log_dir.rglob("*"), *(watch.dir / "state").rglob("*")]:
            if path.is_file():
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    finally:
        watch.start()
    assert watch.verify().returncode == 10
