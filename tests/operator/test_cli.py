"""`pawl key | operator | reviews | review | resume | skip | abort | session | breaker | reload | console`, as a person or a script meets them.

A10: answers count once. A12: no answer without an enrolled key's signature. A16: nothing that an agent wrote moves the cursor.
"""
from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import termios
import time

import pytest

import live
from conftest import PASSPHRASE

VERBS = ["key", "operator", "reviews", "review", "resume", "skip", "abort", "session", "breaker", "reload", "console"]


@pytest.mark.parametrize("verb", VERBS)
def test_help(verb, person):
    assert f"usage: pawl {verb}" in person.ok(verb, "--help") or verb in ("skip", "abort")
    assert person.run(verb, "--no-such").returncode == 2
    assert verb in person.ok("--help")


@pytest.mark.parametrize("words", [
    ("key",), ("key", "make"), ("key", "new", "x"), ("key", "new", "--name", "a b"), ("key", "new", "--name", "../x"), ("key", "show", "a", "b"),
    ("operator",), ("operator", "add", "x"), ("operator", "add", "../x", "k"), ("operator", "list", "x"), ("operator", "remove"),
    ("reviews", "x"), ("reviews", "--tree"), ("review", "show"), ("review", "show", "s_1"), ("review", "r_1"), ("review", "show", "r_1", "r_2"),
    ("resume",), ("resume", "s_1"), ("resume", "r_0"), ("resume", "r_1x"), ("resume", "r_1", "r_2"), ("resume", "r_1", "--tree"), ("skip", "r_1", "--all"),
    ("resume", "r_1", "--reason", "a\x1bb"), ("resume", "r_1", "--reason", "x" * 257), ("abort", "r_1", "--json"),
    ("session", "abort"), ("session", "abort", "r_1"), ("session", "s_1"), ("breaker", "reset"), ("breaker", "reset", "b", "--session", "r_1"),
    ("breaker", "reset", "b\n"), ("reload", "x"), ("reload", "--reason", "a\x1bb"), ("console", "x"), ("console", "--reason", "x"),
])
def test_usage(words, person):
    done = person.run(*words)
    assert done.returncode == 2 and done.stderr and not done.stdout, done


# ---- keys


def test_key_sealed(person):
    done = person.run("key", "new", passphrase=PASSPHRASE)
    assert done.returncode == 0, done
    vkey = done.stdout.decode().strip()
    assert re.fullmatch(r"anna\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}", vkey)
    assert f"pawl operator add anna '{vkey}'" in done.stderr.decode()
    text = person.key.read_text()
    assert text.startswith("pawl-operator-key/v1\npublic " + vkey + "\nargon2id 2 67108864\n")
    assert "PRIVATE" not in text and PASSPHRASE not in text
    assert stat.S_IMODE(person.key.stat().st_mode) == 0o600
    shown = person.run("key", "show", str(person.key))
    assert shown.returncode == 0 and shown.stdout.decode().strip() == vkey and not shown.stderr


def test_key_plain(person):
    old = os.umask(0)
    try:
        vkey = person.ok("key", "new", "--no-passphrase", "--out", str(person.home / "deep" / "er" / "k")).strip()
    finally:
        os.umask(old)
    file = person.home / "deep" / "er" / "k"
    assert re.fullmatch(r"PRIVATE\+KEY\+anna\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+\n", file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(os.listdir(file.parent)) == ["k"]
    shown = person.run("key", "show", str(file))
    assert shown.stdout.decode().strip() == vkey and b"no passphrase" in shown.stderr


def test_key_never_overwritten(person):
    person.ok("key", "new", "--no-passphrase")
    before = person.key.read_bytes()
    done = person.run("key", "new", passphrase=PASSPHRASE)
    assert done.returncode == 1 and b"already" in done.stderr and not done.stdout
    assert person.key.read_bytes() == before


@pytest.mark.parametrize("passphrase,says", [("", b"empty passphrase"), ("x" * 1025, b"at most 1024")])
def test_key_bad_passphrase(person, passphrase, says):
    done = person.run("key", "new", passphrase=passphrase)
    assert done.returncode == 1 and says in done.stderr and not person.key.exists()


@pytest.mark.parametrize("fd", ["x", "-1", "1x", "99"])
def test_bad_descriptor(person, fd):
    assert person.run("key", "new", PAWL_PASSPHRASE_FD=fd).returncode in (1, 2)
    assert not person.key.exists()


def test_no_terminal_to_ask_at(person):
    done = person.run("key", "new")  # start_new_session: no controlling terminal
    assert done.returncode == 1 and b"PAWL_PASSPHRASE_FD" in done.stderr and not person.key.exists()


class Terminal:
    """`pawl` at a terminal of its own."""

    def __init__(self, person, *words: str, **env: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execve(str(live.PAWL), [str(live.PAWL), *words], {**person.env, "TERM": "dumb", **env})
            finally:
                os._exit(127)
        self.seen = b""

    def until(self, text: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds * live.SLOW
        while text.encode() not in self.seen:
            assert time.monotonic() < end, (text, self.seen)
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    raise AssertionError((text, self.seen)) from None

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def status(self) -> int:
        end = time.monotonic() + 20 * live.SLOW
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(self.seen)


@pytest.mark.parametrize("again,status", [(PASSPHRASE, 0), ("correct hors", 1)])
def test_passphrase_at_a_terminal(person, again, status):
    t = Terminal(person, "key", "new")
    t.until("passphrase for the new key: ")
    assert not termios.tcgetattr(t.fd)[3] & termios.ECHO
    t.type(PASSPHRASE + "\n")
    t.until("the same again: ")
    t.type(again + "\n")
    assert t.status() == status
    assert PASSPHRASE.encode() not in t.seen and person.key.exists() == (status == 0)
    if status == 0:
        assert termios.tcgetattr(t.fd)[3] & termios.ECHO


@pytest.mark.parametrize("what", ["intr", signal.SIGTERM, signal.SIGHUP])
def test_interrupted_passphrase_leaves_the_echo_on(person, what):
    t = Terminal(person, "key", "new")
    t.until("passphrase for the new key: ")
    keep = os.open(os.readlink(f"/proc/{t.pid}/fd/0"), os.O_RDWR | os.O_NOCTTY)  # so that the terminal outlives it
    assert not termios.tcgetattr(keep)[3] & termios.ECHO
    if what == "intr":
        t.type("\x03")
    else:
        os.kill(t.pid, what)
    assert t.status() == -(signal.SIGINT if what == "intr" else what)
    assert termios.tcgetattr(keep)[3] & termios.ECHO
    os.close(keep)
    assert not person.key.exists()


# ---- operators


def vkey_of(person, name: str) -> str:
    return person.ok("key", "new", "--no-passphrase", "--name", name, "--out", str(person.home / name)).strip()


def test_operators(person):
    person.dir.mkdir()
    assert person.ok("operator", "list") == "nobody is enrolled\n" and person.json("operator", "list", "--json") == {"operators": []}
    anna, bob = vkey_of(person, "anna"), vkey_of(person, "bob")
    (person.home / "bob.vkey").write_text(bob + "\n")
    said = person.ok("operator", "add", "anna", anna)
    assert anna in said and "SIGHUP" in said and "next start" in said
    person.ok("operator", "add", "bob", str(person.home / "bob.vkey"))
    file = person.dir / "operators" / "anna.vkey"
    assert file.read_text() == anna + "\n" and stat.S_IMODE(file.stat().st_mode) == 0o644
    assert not stat.S_IMODE((person.dir / "operators").stat().st_mode) & 0o022
    assert person.json("operator", "list", "--json") == {"operators": [{"operator": "anna", "key": anna}, {"operator": "bob", "key": bob}]}
    assert [line.split() for line in person.ok("operator", "list").splitlines()] == [["anna", anna], ["bob", bob]]
    assert "SIGHUP" in person.ok("operator", "remove", "anna")
    assert os.listdir(person.dir / "operators") == ["bob.vkey"]
    assert person.run("operator", "remove", "anna").returncode == 1


def test_operator_refusals(person):
    live_dir = person.dir
    subprocess.run([str(live.PAWL), "init", "--dir", str(live_dir)], check=True, capture_output=True)
    anna, other = vkey_of(person, "anna"), vkey_of(person, "other")
    person.ok("operator", "add", "anna", anna)
    person.ok("operator", "add", "anna", anna)  # again is no fault
    rows = [
        (("anna", person.ok("key", "new", "--no-passphrase", "--name", "anna", "--out", str(person.home / "anna2")).strip()), b"another key"),
        (("anna", other), b"another name"),
        (("bob", other), b"another name"),
        (("bob", anna), b"enrolled as anna"),
        (("bob", (live_dir / "entry.vkey").read_text().strip()), b"signs the log"),
        (("bob", (person.home / "other").read_text().strip()), b"secret key"),
        (("bob", str(person.home / "other")), b"bob"),  # a secret key's file is no public line
        (("bob", "no such file"), b"no such file"),
        (("bob", other[:-1] + "!"), b""),
    ]
    for words, says in rows:
        done = person.run("operator", "add", *words)
        assert done.returncode == 1 and not done.stdout and (says in done.stderr or says == b"bob"), (words, done)
        assert (person.home / "other").read_bytes().strip().split(b"+", 4)[-1] not in done.stderr, "a secret was printed"
    assert os.listdir(live_dir / "operators") == ["anna.vkey"]


def test_operators_folder_open_to_others(person):
    (person.dir / "operators").mkdir(parents=True)
    os.chmod(person.dir / "operators", 0o777)
    done = person.run("operator", "add", "anna", vkey_of(person, "anna"))
    assert done.returncode == 1 and b"0777" in done.stderr and not os.listdir(person.dir / "operators")


def test_operator_link_is_not_followed(person):
    person.dir.mkdir()
    (person.home / "elsewhere").mkdir()
    os.symlink(person.home / "elsewhere", person.dir / "operators")
    assert person.run("operator", "add", "anna", vkey_of(person, "anna")).returncode == 1
    assert not os.listdir(person.home / "elsewhere")


# ---- reviews


def test_reviews(anna, door):
    assert anna.ok("reviews") == "nothing waits\n"
    a, b = door.hold("held", {"n": 1}), door.hold("held", {"n": 2})
    lines = anna.ok("reviews").splitlines()
    assert [line.split()[:3] for line in lines] == [[a, "pending", "held"], [b, "pending", "held"]] and "left" in lines[0]
    cards = anna.json("reviews", "--json")["reviews"]
    assert [c["review"] for c in cards] == [a, b] and cards[0]["asks"][0]["rule"] == "ask"
    anna.ok("skip", a, "--reason", "no")
    assert [line.split()[0] for line in anna.ok("reviews").splitlines()] == [b]
    assert [line.split()[:2] for line in anna.ok("reviews", "--all").splitlines()] == [[a, "skipped"], [b, "pending"]]


@pytest.mark.parametrize("door", ["fake"], indirect=True)  # a door that can be told to misbehave
def test_reviews_in_pages(anna, door):
    door.page = 7
    held = [door.hold() for _ in range(20)]
    assert [c["review"] for c in anna.json("reviews", "--json")["reviews"]] == held
    door.script["review.list"] = lambda m: {"v": 1, "op": "review.list", "reviews": [], "more": True}
    assert anna.ok("reviews") == "nothing waits\n"  # and does not ask for ever


def test_show(anna, door):
    review = door.hold("held", {"to": "x\u202ey", "n": 4800})
    text = anna.ok("review", "show", review)
    assert f"== {review} ==" in text and '"n": 4800' in text and '"to": "x\\u{202e}y"' in text and "! MARKED" in text and "rule ask" in text
    assert json.loads(json.loads(anna.run("review", "show", review, "--json").stdout)["args"])["n"] == 4800
    assert anna.run("review", "show", "r_999999").returncode == 1


@pytest.mark.parametrize("verb,state", [("resume", "resumed"), ("skip", "skipped"), ("abort", "aborted")])
def test_answers(anna, door, verb, state):
    review = door.hold("held", {"n": 1})
    said = anna.ok(verb, review, "--reason", "gr\u00fc\u00dfe \"q\" \\")
    assert re.fullmatch(rf"{review} {state}; log entry \d+\n", said)
    assert door.state(review) == state
    # A10: the first answer stands, another is told so
    for again in ("resume", "skip", "abort"):
        done = anna.run(again, review)
        assert done.returncode == 3 and not done.stdout, done
        assert f"{review} is {state} by anna: gr\u00fc\u00dfe".encode() in done.stderr
    assert door.state(review) == state


def test_id_without_letter(anna, door):
    review = door.hold()
    anna.ok("skip", review[2:])
    assert door.state(review) == "skipped"


def test_a10_two_consoles_at_once(anna, door):
    review = door.hold()
    pair = [subprocess.Popen([str(live.PAWL), verb, review], env=anna.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for verb in ("resume", "skip") * 3]
    codes = sorted(p.wait(30) for p in pair)
    for p in pair:
        p.communicate()
    assert codes == [0, 3, 3, 3, 3, 3]


def test_a12_no_answer_without_an_enrolled_key(anna, door):
    review = door.hold()
    stranger = str(anna.home / "eve")
    anna.ok("key", "new", "--no-passphrase", "--name", "eve", "--out", stranger)
    rows = [
        (("--key", stranger), b"unauthenticated"),
        (("--key", stranger, "--as", "anna"), b"unauthenticated"),
        (("--as", "bob"), b"unauthenticated"),
        (("--key", str(anna.home / "none")), b"`pawl key new"),
        (("--as", "../anna"), b""),
    ]
    for words, says in rows:
        done = anna.run("resume", review, *words)
        assert done.returncode in (1, 2) and says in done.stderr and not done.stdout, (words, done)
        assert door.state(review) == "pending"
    os.chmod(anna.key, 0o640)
    done = anna.run("resume", review)
    assert done.returncode == 1 and b"0640" in done.stderr and door.state(review) == "pending"
    os.chmod(anna.key, 0o600)
    anna.ok("operator", "remove", "anna")
    door.reload_operators()
    assert anna.run("resume", review).returncode == 1 and door.state(review) == "pending"


def test_sealed_key(person, door):
    vkey = person.ok("key", "new", passphrase=PASSPHRASE).strip()
    person.ok("operator", "add", "anna", vkey)
    door.reload_operators()
    review = door.hold()
    wrong = person.run("resume", review, passphrase="correct hors")
    assert wrong.returncode == 1 and b"wrong passphrase" in wrong.stderr and door.state(review) == "pending"
    assert person.run("resume", review).returncode == 1  # nobody to ask
    person.ok("resume", review, passphrase=PASSPHRASE)
    assert door.state(review) == "resumed"


ORDERS = [
    (("resume", "r_50"), {"op": "review.resolve", "review": "r_50", "action": "resume", "reason": ""}),
    (("skip", "r_50", "--reason", "x"), {"op": "review.resolve", "review": "r_50", "action": "skip", "reason": "x"}),
    (("abort", "50", "--tree"), {"op": "review.resolve", "review": "r_50", "action": "abort", "reason": "", "tree": True}),
    (("session", "abort", "s_12", "--reason", "y"), {"op": "session.abort", "session": "s_12", "reason": "y"}),
    (("session", "abort", "12", "--tree"), {"op": "session.abort", "session": "s_12", "reason": "", "tree": True}),
    (("breaker", "reset", "web"), {"op": "breaker.reset", "breaker": "web", "reason": ""}),
    (("breaker", "reset", "web", "--session", "12", "--owner", "crew", "--tool", "page.fetch", "--reason", "up"),
     {"op": "breaker.reset", "breaker": "web", "session": "s_12", "owner": "crew", "tool": "page.fetch", "reason": "up"}),
    (("reload",), {"op": "policy.reload"}),
]


@pytest.mark.parametrize("words,order", ORDERS)
def test_orders(words, order, person, fake):
    person.ok("operator", "add", "anna", person.ok("key", "new", "--no-passphrase").strip())
    fake.reload_operators()
    fake.hold()
    assert "log entry 101" in person.ok(*words)
    sent = [{k: v for k, v in m.items() if k not in ("nonce", "signature")} for m in fake.orders]
    assert sent == [{"v": 1, "operator": "anna", **order}]


def test_reload_that_fails(person, fake):
    person.ok("operator", "add", "anna", person.ok("key", "new", "--no-passphrase").strip())
    fake.reload_operators()
    fake.script["policy.reload"] = lambda m: {"v": 1, "op": "policy.reload", "loaded": False, "log": {"seq": 5}, "problems": [
        {"warning": False, "line": 12, "column": 7, "message": "unknown key \"al\u001bow\""}]}
    done = person.run("reload")
    assert done.returncode == 1 and b'12:7: error: unknown key "al\\u{1b}ow"' in done.stdout and b"NOT loaded" in done.stdout


ODD = [b"", b"{", b"[]", b"null", b'{"v":1}', b'{"v":1,"op":"nonce","nonce":"' + b"zz" * 32 + b'"}', b'{"v":1,"op":"nonce","nonce":5}',
       b'{"v":1,"op":"nonce","error":{"code":"unavailable","message":"\xe2\x80\xae\\u001b[2J"}}', b'{"error":7}', b"\xff" * 9]


@pytest.mark.parametrize("reply", ODD)
def test_odd_doors(reply, person, fake):
    person.ok("key", "new", "--no-passphrase")
    for op in ("nonce", "review.list", "review.show", "review.resolve"):
        fake.script[op] = lambda m: reply
    for words in (("resume", "r_50"), ("reload",), ("reviews", "--json"), ("reviews",), ("review", "show", "r_50")):
        done = person.run(*words)
        assert done.returncode in (0, 1), (words, done)
        assert words[0] not in ("resume", "reload") or done.returncode == 1
        printable(done.stdout + done.stderr)
    assert not fake.orders


def test_nobody_there(person):
    person.dir.mkdir()
    person.ok("key", "new", "--no-passphrase")
    for words in (("reviews",), ("review", "show", "r_1"), ("resume", "r_1"), ("reload",), ("console",)):
        done = person.run(*words)
        assert done.returncode == 1 and b"is pawld running" in done.stderr and not done.stdout, done


# ---- A16


EVIL = {
    "esc": "\x1b[2J\x1b[H", "title": "\x1b]0;x\x07", "rtl": "a\u202eexe.txt", "zero": "a\u200bb", "c1": "\u009b31m", "del": "\x7f", "tag": "\U000e0061",
    "cyr": "p\u0430ypal", "line": "x\nstate    | resumed", "cr": "x\rstate", "\u202ekey": 1, "long": " " * 50_000 + "rm -rf /",
}


def printable(got: bytes) -> None:
    for c in got.decode():
        assert c == "\n" or (ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0 and c not in "\u202e\u200b\u0430\U000e0061"), (hex(ord(c)), got[:400])


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a16_no_raw_bytes(anna, door, locale):
    review = door.hold("held", EVIL)
    for words in (("review", "show", review), ("reviews",), ("review", "show", review, "--json"), ("reviews", "--json"), ("console",)):
        done = anna.run(*words, LC_ALL=locale)
        assert done.returncode == 0, done
        printable(done.stdout + done.stderr)
    shown = anna.run("console").stdout.decode()
    for piece in ("\\u{1b}[2J", "a\\u{202e}exe.txt", "a\\u{200b}b", "\\u{9b}31m", "p\\u{430}ypal", "x\\u{a}state    | resumed", '"\\u{202e}key": 1', "! MARKED"):
        assert piece in shown, (piece, shown)
    # cut, with its length and digest, the end shown
    assert 'rm -rf /" (cut: ' in shown.replace("\n         | ", "") and "SHA-256" in shown and len(shown) < 8000


def test_a16_more_than_pawld_keeps(anna, door):
    review = door.hold("held", {"a": "\x1b[2J", "b": "x" * 100_000})
    for words in (("review", "show", review), ("console",)):
        shown = anna.ok(*words).replace("\n         | ", "")
        printable(shown.encode())
        assert '{\\"a\\":\\"\\\\u001b[2J\\",\\"b\\":\\"xxx' in shown and "! CUT" in shown and "kept the first 65536 bytes of " in shown, shown[-2000:]


# ---- the console


def test_console_from_a_pipe(anna, door):
    a, b, c = (door.hold("held", {"n": n}) for n in (1, 2, 3))
    done = anna.run("console", stdin="r\nlooks right\ns\n\na\nrunaway\n")
    assert done.returncode == 0, done
    assert (door.state(b), door.state(c)) == ("skipped", "aborted")
    assert door.state(a) in ("resumed", "closed")  # the abort ends the session, and with it an approval that was not used
    out = done.stdout.decode()
    assert "answering as anna" in out
    assert all(re.search(rf"^{x} {how}; log entry \d+$", out, re.M) for x, how in ((a, "resumed"), (b, "skipped"), (c, "aborted")))


@pytest.mark.parametrize("typed", ["", "r", "r\n", "r\nunfinished", "r\n.\n", "x\n", "q\nr\n\n", "r now\n", "\n\n\n", "?\nl\n", "r" * 5000 + "\n", "\0\n", "r r_999\n\n"])
def test_console_sends_nothing(anna, door, typed):
    review = door.hold()
    done = anna.run("console", stdin=typed)
    assert done.returncode == 0 and door.state(review) == "pending", done
    assert f"== {review} ==" in done.stdout.decode()
    printable(done.stdout)


def test_console_watches_without_a_key(person, fake):
    review = fake.hold()
    done = person.run("console", stdin="r\n\n")
    assert done.returncode == 0 and b"only watches" in done.stderr and b"only watches" in done.stdout and fake.state(review) == "pending"
    assert person.run("console", "--key", str(person.home / "none")).returncode == 1  # one that was named must be there


def test_console_new_cards_appear(anna, door):
    t = Terminal(anna, "console")
    t.until("0 waiting")
    a = door.hold("held", {"n": 1})
    t.until(f"== {a} ==")
    t.until(f"{a} held, 1 waiting [r s a v l ? q]: ")
    b = door.hold("held", {"n": 2})
    t.until(f"== {b} ==")
    t.type("r\n")
    t.until(f"resume {a} held: reason")
    t.type("fine\n")
    t.until(f"{a} resumed; log entry")
    t.until(f"{b} held, 1 waiting")
    anna.ok("skip", b)  # elsewhere
    t.until(f"{b} waits no more")
    t.type("r\n")
    t.until("nothing was sent")
    t.type("q\n")
    assert t.status() == 0 and b"\x1b" not in t.seen
    assert (door.state(a), door.state(b)) == ("resumed", "skipped")


def test_console_typed_ahead_answers_only_what_was_shown(anna, door):
    a, b = door.hold("held", {"n": 1}), door.hold("held", {"n": 2})
    t = Terminal(anna, "console")
    t.until(f"{a} held, 2 waiting")
    t.type("r\n\nr\n\n")  # the second pair was typed before the second card had its turn
    t.until(f"{a} resumed")
    t.until(f"{b} held, 1 waiting")
    time.sleep(0.5)
    t.type("q\n")
    assert t.status() == 0 and door.state(b) == "pending"


def test_console_outlives_pawld(person, fake):
    person.ok("key", "new", "--no-passphrase")
    t = Terminal(person, "console")
    t.until("0 waiting")
    os.rename(fake.socket, fake.socket + ".away")
    t.until("pawld does not answer")
    os.rename(fake.socket + ".away", fake.socket)
    t.until("pawld answers again")
    t.type("\x04")  # the end of input
    assert t.status() == 0 and t.seen.count(b"does not answer") == 1


def test_console_asks_for_the_passphrase(person, fake):
    person.ok("operator", "add", "anna", person.ok("key", "new", passphrase=PASSPHRASE).strip())
    fake.reload_operators()
    review = fake.hold()
    t = Terminal(person, "console")
    t.until("passphrase of anna: ")
    t.type(PASSPHRASE + "\n")
    t.until(f"{review} held")
    t.type("r\n")
    t.until("reason")
    t.type("\n")
    t.until("resumed")
    t.type("q\n")
    assert t.status() == 0 and PASSPHRASE.encode() not in t.seen and fake.state(review) == "resumed"
