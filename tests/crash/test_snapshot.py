"""SQLite is never believed (semantics 1): a start goes on from a snapshot that a signed entry vouches for, and from nothing else.

Whatever is done to projection.sqlite, what was spent stays spent, what was denied stays denied, and what was asked is still asked.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import journalfile
from live import SLOW, Live, nano, until

LOG = 65

POLICY = """pawl: 1
name: snapshot-test
currency: USD
default: deny
tools:
  work: {}
  probe: {cost: 0 USD}
  held: {cost: 0 USD}
rules:
  - {id: work, allow: [work, probe]}
  - {id: ask, review: [held]}
  - {id: never, deny: [forbidden]}
budgets:
  run: {per: session, limit: 5 USD}
  all: {per: agent, limit: 50 USD}
loops:
  repeat: {same: [tool, args], limit: 3, window: 50 calls, then: deny}
sessions: {lease: 1h, calls: 10000000}
limits: {decide: 1000000/s, burst: 1000000}
...
"""


def projection(d: Live):
    return d.dir / "state" / "projection.sqlite"


def fill(d: Live):
    """A session with something of everything that a state remembers."""
    s = d.session()
    for i in range(4):
        r = s.decide("work", {"n": i}, money="1")
        assert r["verdict"] == "allow"
        s.settle(r["decision"], money="0.9")
    assert s.decide("work", {"n": 9}, money="0.8")["verdict"] == "allow"  # stays open
    for _ in range(3):
        assert s.decide("probe", {"same": 1})["verdict"] == "allow"
    assert s.decide("probe", {"same": 1})["reason"]["code"] == "loop_repeat"
    assert s.decide("forbidden", {})["reason"]["code"] == "rule"
    assert s.decide("held", {"x": 1})["verdict"] == "review"
    return s


def memory(d: Live, s) -> dict:
    """What the daemon remembers of the session, as far as it shows."""
    s.stream.close()
    s.stream = d.door()
    state = s.state()
    for moving in ("expires", "now"):
        state.pop(moving, None)
    return {
        "state": state,
        "reviews": d.ask_operator("review.list", limit=100)["reviews"],
        "loop": s.decide("probe", {"same": 1})["reason"]["code"],
        "budget": s.decide("work", {"n": 100}, money="0.8")["reason"]["code"],
        "sticky": s.decide("forbidden", {"other": 1})["reason"]["code"],
        "held": s.decide("held", {"x": 1})["review"],
    }


def said(d: Live, words: str) -> bool:
    return any(words in line for line in d.lines)


def rebuilt(d: Live) -> bool:
    return not said(d, "started from the snapshot")


def vouched(d: Live) -> bool:
    """There is a snapshot that a start can use, wherever pawld is killed."""
    return "vouched for by entry" in d.pawl("store", "status", "--dir", str(d.dir)).stdout


def settled_memory(d: Live, s) -> dict:
    """Twice: asking leaves entries, and the second answer must be like the first."""
    memory(d, s)
    return memory(d, s)


def same(a: dict, b: dict) -> None:
    for m in (a, b):
        m["state"].pop("decisions", None)  # counts the questions of memory() itself
    assert a == b


@pytest.mark.parametrize("end", ["stop", "kill", "kill the rest"])
def test_a_start_goes_on_from_the_newest_snapshot(end):
    with Live(POLICY) as d:
        d.start("--snapshot-every", "7")
        s = fill(d)
        before = settled_memory(d, s)
        until("a snapshot is vouched for in the file, a tenth of a second after the log", lambda: vouched(d))
        if end == "kill the rest":
            old = d.rest_pid
            os.kill(old, signal.SIGKILL)
            until("the rest is started again", lambda: said(d, "started from the snapshot"))
            d.wait_answers()
        else:
            (d.stop if end == "stop" else d.kill)()
            d.start("--snapshot-every", "7")
            assert said(d, "started from the snapshot")
        same(before, settled_memory(d, s))
        until("the entries before it were read", lambda: d.status()["store"]["unread"] == 0)
        d.stop()
        assert d.verify().returncode == 10  # whole, with nothing to hold its end against


def test_an_orderly_end_leaves_a_snapshot():
    with Live(POLICY) as d:
        d.start()
        s = fill(d)
        before = settled_memory(d, s)
        assert d.stop() == 0
        kinds = [e["body"]["kind"] for e in d.entries()]
        assert kinds[-2:] == ["snapshot", "stop"]
        assert d.entries()[-2]["body"]["at"] == len(kinds) - 2
        d.start()
        assert said(d, f"started from the snapshot at entry {len(kinds) - 2}")
        same(before, settled_memory(d, s))


def sql(d: Live, text: str, *args) -> None:
    with sqlite3.connect(projection(d)) as db:
        db.execute(text, args)
        db.commit()
    db.close()


def garbage(d: Live) -> None:
    for f in projection(d).parent.glob("projection.sqlite-*"):
        f.unlink()
    projection(d).write_bytes(b"not a database" * 1000)


def cut(d: Live) -> None:
    os.truncate(projection(d), projection(d).stat().st_size // 2)


def newest_part(d: Live) -> tuple:
    with sqlite3.connect(projection(d)) as db:
        return db.execute("select at, part, bytes from snapshot_part order by at desc, part limit 1").fetchone()


def flip(d: Live) -> None:
    """A byte in the middle of the newest one; older ones go, so that nothing else can be started from."""
    at, part, data = newest_part(d)
    data = bytearray(data)
    data[len(data) // 2] ^= 1
    sql(d, "delete from snapshot where at < ?", at)
    sql(d, "update snapshot_part set bytes = ? where at = ? and part = ?", bytes(data), at, part)


def flip_and_say_so(d: Live) -> None:
    """The stored hash is mended too; the signed one is out of reach."""
    import hashlib

    flip(d)
    at, _, data = newest_part(d)
    sql(d, "update snapshot set sha256 = ? where at = ?", hashlib.sha256(data).digest(), at)


HARM = {
    "gone": lambda d: [f.unlink() for f in projection(d).parent.glob("projection.sqlite*")],
    "empty": lambda d: projection(d).write_bytes(b""),
    "garbage": garbage,
    "cut": cut,
    "no snapshots": lambda d: sql(d, "delete from snapshot"),
    "no parts": lambda d: sql(d, "delete from snapshot_part"),
    "a byte flipped": flip,
    "flipped, with its hash": flip_and_say_so,
    "another entry vouches": lambda d: sql(d, "update snapshot set entry = entry - 1"),
    "an entry that is not there": lambda d: sql(d, "update snapshot set entry = 100000"),
    "another place": lambda d: sql(d, "update snapshot set at = at - 1"),
    "a table gone": lambda d: sql(d, "drop table decision"),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_what_is_done_to_the_file_changes_nothing(harm):
    with Live(POLICY) as d:
        d.start()
        s = fill(d)
        before = settled_memory(d, s)
        d.stop()
        harm(d)
        d.start()
        assert rebuilt(d), d.lines
        same(before, settled_memory(d, s))
        d.stop()  # and it is whole again
        d.start()
        assert not rebuilt(d), d.lines
        same(before, settled_memory(d, s))


def test_edited_rows_change_nothing():
    """The numbers that people read are not the numbers that pawld counts with."""
    with Live(POLICY) as d:
        d.start()
        s = fill(d)
        before = settled_memory(d, s)
        d.stop()
        sql(d, "update ledger set spent = 0, reserved = 0")
        sql(d, "delete from denial")
        sql(d, "update review set state = 'resumed'")
        d.start()
        assert not rebuilt(d)
        same(before, settled_memory(d, s))


@pytest.mark.parametrize("name", ["projection.sqlite-journal", "projection.sqlite-wal", "private.sqlite-journal"])
def test_a_pipe_beside_the_files_holds_nobody_up(name):
    with Live(POLICY) as d:
        d.start()
        s = fill(d)
        before = settled_memory(d, s)
        d.stop()
        pipe = d.dir / "state" / name
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
        if name.startswith("private"):
            code, text = d.try_start()
            assert code != 0 and "not a regular file" in text, (code, text)
            pipe.unlink()
        d.start()
        assert name.startswith("private") or (rebuilt(d) and said(d, "not a regular file")), d.lines
        same(before, settled_memory(d, s))


def test_an_older_file_is_gone_on_from():
    """A backup of the projection alone: its snapshot is genuine, the log has the rest."""
    with Live(POLICY) as d:
        d.start()
        s = fill(d)
        d.stop()
        shutil.copy2(projection(d), d.dir / "old.sqlite")
        d.start()
        before = settled_memory(d, s)
        d.stop()
        for f in projection(d).parent.glob("projection.sqlite-*"):
            f.unlink()
        shutil.copy2(d.dir / "old.sqlite", projection(d))
        d.start()
        assert not rebuilt(d)
        same(before, settled_memory(d, s))
        until("the rows have caught up", lambda: d.status()["store"]["rows"] == d.status()["log"]["seq"])


def test_a_file_of_another_log():
    with Live(POLICY) as d, Live(POLICY) as other:
        for x in (d, other):
            x.start()
        s = fill(d)
        fill(other)
        before = settled_memory(d, s)
        d.stop()
        other.stop()
        if len(other.entries()) > len(d.entries()):
            pytest.fail("the other one must not be longer")
        for f in projection(d).parent.glob("projection.sqlite-*"):
            f.unlink()
        shutil.copy2(projection(other), projection(d))
        d.start()
        assert rebuilt(d)
        same(before, settled_memory(d, s))


def test_rows_beyond_the_end_of_the_log_are_a_rollback():
    """The whole folder restored but for the projection: spent money would come back."""
    with Live(POLICY) as d:
        d.start()
        fill(d)
        d.stop()
        shutil.copytree(d.log_dir, d.dir / "log.old")
        shutil.copy2(d.dir / "state" / "private.sqlite", d.dir / "private.old")
        d.start()
        fill(d)
        d.stop()
        shutil.rmtree(d.log_dir)
        (d.dir / "log.old").rename(d.log_dir)
        shutil.copy2(d.dir / "private.old", d.dir / "state" / "private.sqlite")
        code, text = d.try_start()
        assert code == LOG and "rolled back" in text, (code, text)


def edit_old_entry(d: Live) -> None:
    """The log's first decision, its text changed, lengths and checksums mended: what a clumsy editor leaves is found by those already."""
    segment = d.segments()[0]
    data = segment.read_bytes()
    origin, records, _ = journalfile.read(data)
    for i, (first, notes) in enumerate(records):
        for k, note in enumerate(notes):
            if b'"verdict":"deny"' in note:
                notes[k] = note.replace(b'"verdict":"deny"', b'"verdict":"axxx"', 1)
                segment.write_bytes(journalfile.build(origin, records, len(data)))
                return
    raise AssertionError("no entry to edit")


def test_an_edit_before_the_snapshot_is_found_before_the_first_answer():
    with Live(POLICY) as d:
        d.start()
        fill(d)
        d.stop()
        edit_old_entry(d)
        code, text = d.try_start()
        assert code == LOG and "not the one that belongs" in text, (code, text)
        assert d.verify().returncode == 12


def test_an_edit_far_before_the_snapshot_ends_pawld_and_stays_found():
    """Where more lies before it than is read at once."""
    with Live(POLICY) as d:
        d.start()
        fill(d)
        d.stop()
        edit_old_entry(d)
        p = d.spawn("--snapshot-every", "7")
        try:
            _, text = p.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            p.kill()
            raise
        assert p.returncode == LOG, (p.returncode, text)
        assert "damaged" in text or "not the one that belongs" in text, text
        code, text = d.try_start()
        assert code == LOG, (code, text)
        assert d.verify().returncode == 12


def split(d: Live, parts: int) -> None:
    """The log's one segment as many: its batches are the same, and a start from a snapshot knows the older ones by their names alone."""
    (segment,) = d.segments()
    origin, records, _ = journalfile.read(segment.read_bytes())
    per = len(records) // parts
    segment.unlink()
    for i in range(0, len(records), per):
        path = d.log_dir / f"journal-{records[i][0]:020d}"
        path.write_bytes(journalfile.build(origin, records[i : i + per], 0))
        path.chmod(0o600)


@pytest.mark.parametrize("more", [[], ["--snapshot-every", "9"]], ids=["read at once", "read behind the start"])
def test_old_answers_from_many_segments(more):
    with Live(POLICY) as d:
        d.start()
        s = d.session()
        asked = []
        for n in range(90):
            m = s.decide_message("forbidden" if n % 2 else "work", {"n": n}, money="0.01")
            asked.append((m, s.stream.ask(m)))
        d.stop()
        split(d, 20)
        assert len(d.segments()) >= 20
        d.start(*more)
        assert not rebuilt(d)
        with d.door() as stream:
            assert all(stream.ask(m) == answer for m, answer in asked)
        until("the entries before it were read", lambda: d.status()["store"]["unread"] == 0)
        d.stop()
        with open(d.segments()[5], "ab") as f:
            f.write(b"behind")
        p = d.spawn(*more)
        try:
            _, text = p.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            p.kill()
            raise
        assert p.returncode == LOG and "behind entry" in text, (p.returncode, text)
        assert d.verify().returncode == 12


def seen(d: Live, s) -> dict:
    s.stream.close()
    s.stream = d.door()
    return {k: v for k, v in s.state().items() if k not in ("expires", "now")}


def test_kills_between_snapshots():
    """A snapshot every few entries and a kill after each few calls: never more money than the log says, and the same from entry 0."""
    with Live(POLICY) as d:
        d.start("--snapshot-every", "5")
        s = d.session()
        spent = 0
        for i in range(12):
            r = s.decide("work", {"n": i}, money="0.3")
            assert r["verdict"] == "allow"
            spent += 300_000_000
            s.settle(r["decision"], money="0.3")
            if i == 11:  # the others come when they come, also before any could be made
                until("a snapshot that the next start can use", lambda: vouched(d))
            d.kill()
            d.start("--snapshot-every", "5")
            assert nano(seen(d, s)["remaining"]["run"]["used"]) == spent
        assert not rebuilt(d)
        want = seen(d, s)
        d.kill()
        HARM["gone"](d)
        d.start()
        assert rebuilt(d)
        assert seen(d, s) == want


def long_log(d: Live) -> None:
    """Some quarter of a second to read, and no snapshot; doors and signals are looked at every twentieth."""
    d.start()
    s = d.session()
    for i in range(0, 40_000 if SLOW == 1 else 10_000, 100):
        asked = [s.stream.send(json.dumps(s.decide_message("forbidden", {"n": i + k})).encode()) for k in range(100)]
        for rid in asked:
            s.stream.receive(rid)
    d.stop()
    HARM["gone"](d)


def hello(d: Live) -> dict:
    """Its answer, as soon as there is a door."""
    for _ in range(2000):
        try:
            with d.door(2) as stream:
                return stream.ask({"v": 1, "op": "hello"})
        except OSError:
            time.sleep(0.002)
    raise AssertionError("no door")


def test_doors_answer_while_the_log_is_read():
    """They say `unavailable`, and how far it is; and a stop is heard."""
    with Live(POLICY) as d:
        long_log(d)
        p = d.spawn()
        try:
            first = hello(d)
            p.terminate()
            _, text = p.communicate(timeout=30)
        finally:
            p.kill()
        assert first["error"]["code"] == "unavailable" and "reading the log: entry " in first["error"]["message"], first
        assert first["error"]["retry_after"] == "1s", first
        assert p.returncode == 0 and "told to stop while reading the log" in text and "error" not in text, (p.returncode, text)
        p = d.spawn()
        try:
            answers = [hello(d)]
            while "error" in answers[-1]:
                answers.append(hello(d))
        finally:
            p.terminate()
            p.communicate(timeout=30)
        assert all(a["error"]["code"] == "unavailable" for a in answers[:-1]), answers
        assert p.returncode == 0 and d.entries()[-1]["body"]["kind"] == "stop"
