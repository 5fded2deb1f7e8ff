"""Threads."""
from __future__ import annotations

import ctypes

_K = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
class Pool:
    threads = 1
    def run(self, steps: int, count: int, args: int, status: int) -> None:
        for k in range(count):
            r = (ctypes.c_int64 * 8).from_address(steps + 64 * k)
            if r[2]: _K(r[0])(args + 8 * r[1], 0, r[2], 0)
            if ctypes.c_int64.from_address(status).value: return
_p = Pool()
def pool(threads: object = None) -> Pool:
    return _p
