"""An operator's signature made apart from daemon/cli: a vkey, and requests over a fresh nonce as docs/reviews.md has them.

Signing itself is libsodium's, through ctypes: pawld needs that library anyway, and no Python package does it without one more to install.
"""
from __future__ import annotations

import base64
import ctypes
import ctypes.util
import hashlib
import json
import os
import signal
from typing import Any

from live import Live, Stream, until, SLOW

_sodium = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
assert _sodium.sodium_init() >= 0


def canonical(message: dict[str, Any]) -> bytes:
    """Enough of RFC 8785 for what operators send: texts, booleans and small integers under ASCII names."""
    return json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Signer:
    def __init__(self, name: str = "anna"):
        self.name = name
        self._public, self._secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
        assert _sodium.crypto_sign_seed_keypair(self._public, self._secret, os.urandom(32)) == 0

    @property
    def vkey(self) -> str:
        tagged = b"\x01" + self._public.raw
        return f"{self.name}+{hashlib.sha256(self.name.encode() + chr(10).encode() + tagged).hexdigest()[:8]}+{base64.b64encode(tagged).decode()}"

    def raw(self, text: bytes) -> bytes:
        """Key ID and signature, as the last line of a note has them."""
        signature = ctypes.create_string_buffer(64)
        assert _sodium.crypto_sign_detached(signature, None, text, ctypes.c_ulonglong(len(text)), self._secret) == 0
        return bytes.fromhex(self.vkey.split("+")[1]) + signature.raw

    def sign(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message and its signature; it must hold operator and nonce already."""
        text, signature = b"pawl-operator/v1\n" + canonical(message), ctypes.create_string_buffer(64)
        assert _sodium.crypto_sign_detached(signature, None, text, ctypes.c_ulonglong(len(text)), self._secret) == 0
        return {**message, "signature": signature.raw.hex()}

    def request(self, nonce: str, op: str, **fields: Any) -> dict[str, Any]:
        return self.sign({"v": 1, "op": op, "operator": self.name, "nonce": nonce, **fields})

    def order(self, d: Live, op: str, **fields: Any) -> dict[str, Any]:
        with Stream(d.operator, 10 * SLOW) as s:
            return s.ask(self.request(s.ask({"v": 1, "op": "nonce"})["nonce"], op, **fields))

    def enrol(self, d: Live) -> "Signer":
        """The file of an operator; pawld reads it at its start, or at HUP."""
        folder = d.dir / "operators"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{self.name}.vkey"
        path.write_text(self.vkey + "\n")
        path.chmod(0o600)
        return self

    def revoke(self, d: Live) -> None:
        (d.dir / "operators" / f"{self.name}.vkey").unlink()


def entries_of(d: Live, kind: str) -> int:
    """How many the log has; unlike Live.entries() also while it grows."""
    done = d.pawl("log", "show", "--dir", str(d.dir), "--kind", kind, "--json")
    assert done.returncode == 0, done.stderr
    return len(done.stdout.splitlines())


def hup(d: Live, keys: int = 1) -> None:
    """HUP, and wait until so many keys were enrolled or revoked."""
    before = entries_of(d, "key")
    os.kill(d.watcher_pid, signal.SIGHUP)
    until("pawld read its operators", lambda: entries_of(d, "key") == before + keys)
