"""How long the kernel's programs ran, by the kernel's own count (kernel.bpf_stats_enabled): a difference of two wall clocks of 80 us each does not show a
microsecond on a machine with neighbours. bpf(2) by number, as nothing else is installed for it. Needs root."""
from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import struct
from typing import Iterator

STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD = 11, 13, 15
CALL = {"x86_64": 321, "aarch64": 280}
INFO = 232  # bytes of struct bpf_prog_info; its name is at 64, run_time_ns and run_cnt at 192


def bpf(command: int, attr: bytes) -> tuple[int, bytes]:
    buf = ctypes.create_string_buffer(attr.ljust(128, b"\0"), 128)
    return ctypes.CDLL(None, use_errno=True).syscall(CALL[os.uname().machine], command, buf, 128), buf.raw


def read() -> dict[int, tuple[str, int, int]]:
    """id -> (name, nanoseconds, runs) of every program that is loaded."""
    found, last = {}, 0
    while True:
        got, raw = bpf(BPF_PROG_GET_NEXT_ID, struct.pack("I", last))
        if got < 0:
            return found
        last = struct.unpack_from("I", raw, 4)[0]
        fd, _ = bpf(BPF_PROG_GET_FD_BY_ID, struct.pack("I", last))
        if fd < 0:
            continue  # gone meanwhile
        info = ctypes.create_string_buffer(INFO)
        got, _ = bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack("IIQ", fd, INFO, ctypes.addressof(info)))
        os.close(fd)
        if got == 0:
            found[last] = (info.raw[64:80].split(b"\0")[0].decode(), *struct.unpack_from("QQ", info.raw, 192))


@contextlib.contextmanager
def counting() -> Iterator[dict[str, float]]:
    """Fills the dict at its end: name -> nanoseconds a run, meanwhile."""
    was, out = STATS.read_text(), {}
    STATS.write_text("1")
    before = read()
    try:
        yield out
        for key, (name, ns, runs) in read().items():
            _, ns0, runs0 = before.get(key, (name, 0, 0))
            if runs > runs0:
                out[name] = (ns - ns0) / (runs - runs0)
    finally:
        STATS.write_text(was)
