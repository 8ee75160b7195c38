"""A log written again by somebody who has an entry key: entries changed at will, chained and signed as pawld does, apart from daemon/log."""
from __future__ import annotations

import base64
import hashlib
import pathlib
from typing import Any, Callable

import journalfile
from live import Live
from signer import Signer, canonical


def rewrite(d: Live, folder: pathlib.Path, change: Callable[[list[dict[str, Any]]], None]) -> str:
    """The log of d with change(bodies) done to its bodies, in `folder`; returns the vkey that it is signed with."""
    key = Signer("doctor/entry")
    bodies = [e["body"] for e in d.entries()]
    origin = d.entries()[0]["note"].split("\n")[1]
    change(bodies)
    previous, notes = bytes(32), []
    for seq, body in enumerate(bodies):
        text = f"pawl-entry/v1\n{origin}\n{seq}\n{base64.b64encode(previous).decode()}\n".encode() + canonical(body) + b"\n"
        previous = hashlib.sha256(text).digest()
        notes.append(text + f"\n\u2014 {key.name} {base64.b64encode(key.raw(text)).decode()}\n".encode())
    folder.mkdir(parents=True)
    records = [(i, [n]) for i, n in enumerate(notes)]
    data = journalfile.build(hashlib.sha256(origin.encode()).digest(), records, 16 << 20)
    (folder / ("journal-" + "0" * 20)).write_bytes(data)
    return key.vkey
