"""Write to pawld's files: policy, log, private store, snapshot rows. (Who can do this is the operator, or has the operator's uid.)"""
import os
import shutil

import journalfile
import live
from live import nano, note_hash
from run import NOTHING

POLICY = live.POLICY
OWNER = "a looser policy after the next start; the start entry names its hash: who can write the policy is the operator"
ROLLBACK = "the money of the cut entries; a receipt shows it (verify --at-least says incomplete)"
STATED = {
    "the policy, no reload": NOTHING,
    "the policy, then a restart": OWNER,
    "the log: a verdict turned": NOTHING,
    "the log: an entry taken out": NOTHING,
    "the log: an amount made smaller": NOTHING,
    "the log: the tail cut off": NOTHING,
    "log and state/, both as they were before": ROLLBACK,
    "state/ deleted": NOTHING,
}
LOG_STATUS = 65


def edit(d, how) -> str:
    """Stop, edit with lengths and checksums mended, look: the daemon must refuse, and verify must say tampered. Then the log is put back."""
    d.stop()
    segment = d.segments()[0]
    whole = segment.read_bytes()
    origin, records, _ = journalfile.read(whole)
    assert journalfile.build(origin, records, len(whole)) == whole, "the mending itself is wrong"
    segment.write_bytes(journalfile.build(origin, how(records), len(whole)))
    code, said = d.try_start()
    verdict = d.verify().returncode
    segment.write_bytes(whole)
    d.start()
    return NOTHING if code == LOG_STATUS and verdict == 12 else f"start {code}, verify {verdict}: {said}"


def swap(records, old: bytes, new: bytes):
    """In the first note that has it."""
    done = False
    out = []
    for first, notes in records:
        changed = []
        for n in notes:
            if not done and old in n:
                n, done = n.replace(old, new, 1), True
            changed.append(n)
        out.append((first, changed))
    assert done, old
    return out


def take_out(records):
    """The first denial, and every later entry moves down by one."""
    gone, out = 0, []
    for first, notes in records:
        kept = []
        for n in notes:
            if not gone and b'"verdict":"deny"' in n:
                gone = 1
                continue
            kept.append(n)
        if kept:
            out.append((first - gone if len(kept) == len(notes) else first, kept))
    assert gone
    return out


def attack(d) -> dict:
    gained = {}
    s = d.session()
    for n in range(4):
        s.decide("work", {"n": n}, money="0.5")
        s.decide("forbidden", {"n": n})
    used = s.state()["remaining"]["run"]["used"]

    loose = live.POLICY.replace("default: deny", "default: allow").replace("deny: [forbidden]", "deny: [other]")
    d.write_policy(loose)
    denied = s.decide("forbidden", {"after": "edit"})["verdict"] == "deny"
    gained["the policy, no reload"] = NOTHING if denied else "a call that was denied"
    old = d.status()["policy"]["hash"]
    d.stop()
    d.start()
    now = d.status()["policy"]["hash"]
    starts = [e["body"]["policy"]["hash"] for e in d.entries() if e["body"]["kind"] == "start"]
    gained["the policy, then a restart"] = OWNER if starts[-2:] == [old, now] and now != old else f"{starts}"
    d.write_policy(live.POLICY)

    gained["the log: a verdict turned"] = edit(d, lambda r: swap(r, b'"verdict":"deny"', b'"verdict":"allow"'))
    gained["the log: an amount made smaller"] = edit(d, lambda r: swap(r, b'"amount":"0.5"', b'"amount":"0.1"'))
    gained["the log: an entry taken out"] = edit(d, take_out)

    # state/ away: projection and private store
    s.stream = d.door()
    d.stop()
    shutil.move(d.dir / "state", d.dir / "state.away")
    os.mkdir(d.dir / "state", 0o700)
    code, said = d.try_start()
    if code == 0:
        d.start()
        left = nano(d.ask_operator("session.list") and d.session().decide("work", {"n": 1}, money="0")["remaining"]["all"]["used"])
        gained["state/ deleted"] = NOTHING if left >= nano(used) else f"{nano(used) - left} nano-units"
        d.stop()
    else:
        gained["state/ deleted"] = NOTHING if said else f"exit {code} without a word"
    shutil.rmtree(d.dir / "state")
    shutil.move(d.dir / "state.away", d.dir / "state")
    d.start()

    # the tail: back to before the last decision, first the log alone, then all of it as a restored disk image would
    s = d.session()
    d.stop()
    segment = d.segments()[0]
    earlier = segment.read_bytes()
    shutil.copytree(d.dir / "state", d.dir / "state.earlier")
    d.start()
    s.stream = d.door()
    receipt = s.decide("work", {"n": "last"}, money="100")["log"]["entry"]
    d.stop()
    segment.write_bytes(earlier)
    seq, digest = note_hash(receipt)
    shown = d.verify("--at-least", f"{seq}:{digest}").returncode
    code, said = d.try_start()
    gained["the log: the tail cut off"] = NOTHING if code == LOG_STATUS and "rolled back" in said else f"start {code}: {said}"
    shutil.rmtree(d.dir / "state")
    shutil.move(d.dir / "state.earlier", d.dir / "state")
    code, _ = d.try_start()
    gained["log and state/, both as they were before"] = ROLLBACK if shown == 13 and code == 0 else f"verify {shown}, start {code}"
    d.start()
    return gained
