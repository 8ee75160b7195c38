"""`pawl store`: the projection made anew from the log, offline, all or nothing; and what it says of itself."""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import journalfile
import live


@pytest.fixture
def daemon(folder):
    d = live.Live(live.POLICY, folder / "d")
    yield d
    if d.process:
        d.stop()


def play(d: live.Live) -> None:
    """Some of everything: settled, open, refused, held, a session that ended."""
    d.start()
    with live.Stream(d.agent) as stream:
        first = live.Session(stream)
        for i in range(20):
            got = first.decide("fixed" if i % 2 else "work", {"i": i})
            if i % 3:
                first.settle(got["decision"], money="0.02")
        first.decide("forbidden", {})
        first.decide("held", {"x": 1})
        second = live.Session(stream)
        second.decide("given", {})
        second.close()
    d.stop()


def store(d: live.Live, verb: str, *words: str, **how) -> subprocess.CompletedProcess:
    return d.pawl("store", verb, "--dir", str(d.dir), *words, **how)


def projection(d: live.Live):
    return d.dir / "state" / "projection.sqlite"


def ask(d: live.Live, sql: str) -> list:
    with sqlite3.connect(f"file:{projection(d)}?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


def entries(d: live.Live) -> list[dict]:
    return [json.loads(line) for line in d.pawl("log", "show", "--dir", str(d.dir), "--json").stdout.splitlines()]


def rebuilt(d: live.Live) -> dict:
    done = store(d, "rebuild", "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_rebuild_holds_what_the_log_says(daemon):
    play(daemon)
    log = entries(daemon)
    answer = rebuilt(daemon)
    assert answer["status"] == "ok" and answer["entries"] == len(log) and answer["torn_bytes"] == 0
    decisions = [e for e in log if e["kind"] == "decision"]
    assert ask(daemon, "SELECT verdict, count(*) FROM decision GROUP BY 1 ORDER BY 1") == [
        (v, n) for v in ("allow", "deny", "review") if (n := sum(e["verdict"] == v for e in decisions))]
    assert ask(daemon, "SELECT count(*) FROM settlement") == [(sum(e["kind"] == "settle" for e in log),)]
    assert ask(daemon, "SELECT applied FROM projection") == [(len(log),)]
    assert ask(daemon, "SELECT count(*) FROM session WHERE ended='close'") == [(1,)]
    assert os.stat(projection(daemon)).st_mode & 0o7777 == 0o600
    assert sorted(p.name for p in (daemon.dir / "state").iterdir() if p.name.startswith("projection")) == ["projection.sqlite", "projection.sqlite-lock"]


def test_spend_is_what_pawl_spend_says(daemon):
    play(daemon)
    rebuilt(daemon)
    for by in ("tool", "agent", "day"):
        told = json.loads(daemon.pawl("spend", "--by", by, "--dir", str(daemon.dir), "--json").stdout)["rows"]
        assert told
        columns = [by, "calls", "open", "refused", "would", "settled", "would_settled", "reserved", "currency", "tokens", "tokens_reserved"]
        rows = ask(daemon, f"SELECT {', '.join(columns)} FROM spend_by_{by}")
        assert sorted(rows) == sorted(tuple(row[c] for c in columns) for row in told)


def test_ledgers(daemon):
    """Three settled at more than they held, two open: in the session's budget and in the agent's."""
    daemon.start()
    with live.Stream(daemon.agent) as stream:
        session = live.Session(stream)
        for i in range(5):
            got = session.decide("fixed", {"i": i})
            if i < 3:
                session.settle(got["decision"], money="0.02")
    daemon.stop()
    rebuilt(daemon)
    rows = ask(daemon, "SELECT budget, scope, spent, reserved, \"limit\" FROM ledgers ORDER BY budget")
    assert rows == [("all", "agent", "0.06", "0.02", "100000"), ("run", "session", "0.06", "0.02", "1000")]


def test_a_second_rebuild_is_the_same_file(daemon):
    play(daemon)
    rebuilt(daemon)
    first = dump(daemon)
    rebuilt(daemon)
    assert dump(daemon) == first


def dump(d: live.Live) -> list[str]:
    with sqlite3.connect(f"file:{projection(d)}?mode=ro", uri=True) as db:
        return list(db.iterdump())


def test_the_questions_of_the_page(daemon):
    """Every query in docs/store.md runs, and every table and view there is, is named there."""
    play(daemon)
    rebuilt(daemon)
    page = (live.ROOT / "docs" / "store.md").read_text()
    queries = [q for q in re.search(r"```sql\n(.*?)```", page, re.S).group(1).split(";") if q.strip()]
    assert len(queries) > 10
    answers = {q: ask(daemon, q) for q in queries}
    assert sum(bool(a) for a in answers.values()) >= 7, answers
    for (name,) in ask(daemon, "SELECT name FROM sqlite_schema WHERE type='table'"):
        assert f"`{name}`" in page, name


def test_status(daemon):
    none = store(daemon, "status")
    assert none.returncode == 11 and "projection.sqlite" in none.stderr
    assert not projection(daemon).exists()
    play(daemon)
    n = rebuilt(daemon)["entries"]
    done = store(daemon, "status", "--json")
    assert done.returncode == 0, done
    got = json.loads(done.stdout)
    assert (got["applied"], got["entries"], got["behind"], got["snapshots"]) == (n, n, 0, [])
    assert got["rows"]["decision"] == sum(e["kind"] == "decision" for e in entries(daemon))
    assert got["bytes"] == projection(daemon).stat().st_size
    words = store(daemon, "status").stdout
    assert f"applied   {n} of {n} entries" in words and "decision " in words and "snapshot  none" in words


def test_status_says_when_it_is_ahead(daemon):
    play(daemon)
    rebuilt(daemon)
    with sqlite3.connect(projection(daemon)) as db:
        db.execute("UPDATE projection SET applied = 100000")
        db.execute("INSERT INTO snapshot VALUES(90000, 90001, 5, zeroblob(32))")
    words = store(daemon, "status").stdout
    assert "ahead of the log" in words and "before entry 90000, 5 bytes, vouched for by entry 90001" in words
    with sqlite3.connect(projection(daemon)) as db:
        db.execute("UPDATE snapshot SET sha256 = x'00'")
    assert store(daemon, "status").returncode == 1


def test_busy_while_pawld_runs(daemon):
    play(daemon)
    rebuilt(daemon)
    before = projection(daemon).read_bytes()
    daemon.start()
    done = store(daemon, "rebuild")
    assert done.returncode == 75 and "pawld is running" in done.stderr
    assert not (daemon.dir / "state" / "projection.sqlite-new").exists()
    assert store(daemon, "status").returncode == 0  # beside it
    daemon.stop()
    assert len(before) and store(daemon, "rebuild").returncode == 0


def test_busy_while_somebody_reads(daemon):
    play(daemon)
    rebuilt(daemon)
    with sqlite3.connect(projection(daemon)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE mine(x)")
        db.execute("INSERT INTO mine VALUES(7)")
        db.commit()
        done = store(daemon, "rebuild")
        assert done.returncode == 75 and "has it open" in done.stderr
        assert db.execute("SELECT x FROM mine").fetchall() == [(7,)]
    db.close()
    rebuilt(daemon)
    assert ask(daemon, "SELECT count(*) FROM sqlite_schema WHERE name='mine'") == [(0,)]


@pytest.mark.parametrize("damage", ["text", "cut", "empty", "foreign", "gone", "wal"])
def test_whatever_the_old_file_was(daemon, damage):
    play(daemon)
    rebuilt(daemon)
    good, path = dump(daemon), projection(daemon)
    if damage == "text":
        path.write_text("no database at all, and long enough to be taken for one " * 9)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE t(x)")
        path.chmod(0o600)
    elif damage == "gone":
        path.unlink()
    else:
        path.with_name(path.name + "-wal").write_bytes(b"\x37\x7f\x06\x82" + b"x" * 9000)
    path.with_name(path.name + "-new").write_text("of a run that was killed")
    rebuilt(daemon)
    assert dump(daemon) == good


def rewrite(d: live.Live, change) -> None:
    """change([(first sequence, notes), ...]) edits the batches in place; the file's own checksums are right again."""
    (segment,) = d.segments()
    data = segment.read_bytes()
    origin, records, _ = journalfile.read(data)
    change(records)
    segment.write_bytes(journalfile.build(origin, records, len(data)))


def a_word_of_the_first_decision(batches) -> None:
    for _, notes in batches:
        for i, note in enumerate(notes):
            if b'"kind":"decision"' in note:
                notes[i] = note.replace(b'"tool":"work"', b'"tool":"idle"')
                return


def a_word_of_the_newest(batches) -> None:
    assert b"told to stop" in batches[-1][1][-1]
    batches[-1][1][-1] = batches[-1][1][-1].replace(b"told to stop", b"told to stay")


def an_entry_that_is_gone(batches) -> None:
    del batches[2:3]


def the_head(batches) -> None:
    del batches[0]


@pytest.mark.parametrize("change, status", [(a_word_of_the_first_decision, 12), (a_word_of_the_newest, 12), (an_entry_that_is_gone, 12)])
def test_a_tampered_log_changes_nothing(daemon, change, status):
    play(daemon)
    rebuilt(daemon)
    before = projection(daemon).read_bytes()
    rewrite(daemon, change)
    done = store(daemon, "rebuild")
    assert done.returncode == status, done
    assert projection(daemon).read_bytes() == before
    assert not (daemon.dir / "state" / "projection.sqlite-new").exists()


def test_a_torn_tail_is_left_out(daemon):
    play(daemon)
    n = rebuilt(daemon)["entries"]
    (segment,) = daemon.segments()
    data = bytearray(segment.read_bytes())
    end = journalfile.read(bytes(data))[2]
    data[end:end + 60] = b"PAWL\x00B1\n" + b"\x07" * 52
    segment.write_bytes(data)
    done = store(daemon, "rebuild", "--json")
    assert done.returncode == 0, done
    got = json.loads(done.stdout)
    assert got["entries"] == n and got["torn_bytes"] > 0 and "last whole batch" in got["message"]
    assert segment.read_bytes() == bytes(data)  # the log is pawld's to mend


def test_a_missing_head(daemon):
    play(daemon)
    (segment,) = daemon.segments()
    rewrite(daemon, the_head)
    _, records, _ = journalfile.read(segment.read_bytes())
    segment.rename(segment.with_name(f"journal-{records[0][0]:020d}"))
    done = store(daemon, "rebuild")
    assert done.returncode == 13 and "head is missing" in done.stderr, done
    assert not (daemon.dir / "state" / "projection.sqlite-new").exists()


def test_nothing_to_do(daemon):
    done = store(daemon, "rebuild", "--json")
    assert done.returncode == 11 and json.loads(done.stdout)["status"] == "nothing-to-do"
    assert not projection(daemon).exists()


def test_another_key(daemon, folder):
    play(daemon)
    other = live.Live(live.POLICY, folder / "other")
    assert store(daemon, "rebuild", "--key", str(other.dir / "entry.vkey")).returncode == 14
    assert store(daemon, "rebuild", "--key", str(folder / "absent")).returncode == 1
    assert store(daemon, "status").returncode == 0  # what was there is there


def test_folders_of_their_own(daemon, folder):
    play(daemon)
    state, log = folder / "s", folder / "l"
    shutil.move(daemon.dir / "state", state)
    shutil.move(daemon.log_dir, log)
    words = ["--state", str(state), "--log", str(log), "--key", str(daemon.dir / "entry.vkey")]
    assert daemon.pawl("store", "rebuild", *words).returncode == 0
    assert (state / "projection.sqlite").exists()
    assert json.loads(daemon.pawl("store", "status", "--json", *words).stdout)["behind"] == 0
    assert daemon.pawl("store", "status", "--dir", str(daemon.dir)).returncode == 1


@pytest.mark.parametrize("words", [[], ["mend"], ["rebuild", "x"], ["rebuild", "--frob"], ["status", "--dir"]])
def test_usage(daemon, words):
    done = daemon.pawl("store", *words)
    assert done.returncode == 2 and "usage: pawl store" in done.stderr


def test_killed_in_the_middle(daemon):
    """Whenever it is killed: the old file as it was, or the new one whole."""
    daemon.start()
    with live.Stream(daemon.agent) as stream:
        session = live.Session(stream)
        for i in range(1500):
            session.decide("work", {"i": i})
    daemon.stop()
    rebuilt(daemon)
    with sqlite3.connect(projection(daemon)) as db:
        db.execute("UPDATE decision SET message='the old one'")
    old = [("the old one",)]
    seen = set()
    began = time.monotonic()
    rebuilt(daemon)
    span = time.monotonic() - began
    new = dump(daemon)
    for i in range(int(os.environ.get("PAWL_KILLS", "12"))):
        with sqlite3.connect(projection(daemon)) as db:
            db.execute("UPDATE decision SET message='the old one'")
        p = subprocess.Popen([str(live.PAWL), "store", "rebuild", "--dir", str(daemon.dir)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(span * (i + 1) / 13)
        p.send_signal(signal.SIGKILL)
        p.wait()
        messages = ask(daemon, "SELECT DISTINCT message FROM decision")
        assert ask(daemon, "PRAGMA integrity_check") == [("ok",)]
        seen.add(messages == old)
        assert messages == old or dump(daemon) == new
    assert True in seen
    rebuilt(daemon)
    assert dump(daemon) == new
