"""The journal's batch records, read and written apart from daemon/log: an attacker who edits the log mends lengths and checksums too.

magic[8] origin[32] first u64, count u32, payload length u32, payload = (length u32, note) * count, CRC-32C u32; big-endian.
"""
from __future__ import annotations

import struct

MAGIC = b"PAWL\0B1\n"


def _table() -> list[int]:
    rows = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        rows.append(n)
    return rows


TABLE = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 0xFF]
    return crc ^ 0xFFFFFFFF


def read(data: bytes) -> tuple[bytes, list[tuple[int, list[bytes]]], int]:
    """(origin hash, [(first sequence, notes)], where the last record ends). ValueError when a record is not whole."""
    at, origin, records = 0, b"", []
    while data[at : at + 8] == MAGIC:
        origin = data[at + 8 : at + 40]
        first, count, n = struct.unpack_from(">QII", data, at + 40)
        payload, at_note, notes = data[at + 56 : at + 56 + n], 0, []
        for _ in range(count):
            (size,) = struct.unpack_from(">I", payload, at_note)
            notes.append(payload[at_note + 4 : at_note + 4 + size])
            at_note += 4 + size
        if at_note != n or crc32c(data[at : at + 56 + n]) != struct.unpack_from(">I", data, at + 56 + n)[0]:
            raise ValueError(f"record at {at}")
        records.append((first, notes))
        at += 56 + n + 4
    return origin, records, at


def build(origin: bytes, records: list[tuple[int, list[bytes]]], size: int) -> bytes:
    """The same file again, filled up with zeroes to `size`."""
    out = b""
    for first, notes in records:
        payload = b"".join(struct.pack(">I", len(n)) + n for n in notes)
        head = MAGIC + origin + struct.pack(">QII", first, len(notes), len(payload)) + payload
        out += head + struct.pack(">I", crc32c(head))
    return out.ljust(size, b"\0")
