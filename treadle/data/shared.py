"""Blocks of memory that two processes share: what a worker makes is not copied."""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import secrets
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

_ALIGNMENT = 64
Spans = list[tuple[int, int]]  # where parts begin, and their sizes


class SharedBlock:
    """Shared memory without a name in the file system: it ends with its processes."""

    def __init__(self, size: int, handle: Any = None) -> None:
        self.size = size
        self.handle = _handle(size) if handle is None else handle
        if sys.platform == "win32":
            self.map = mmap.mmap(-1, size, tagname=self.handle)
        else:
            self.map = mmap.mmap(self.handle, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def send(self, connection: Connection) -> None:
        """Give the block to the process at the other end, which calls `receive`."""
        connection.send((self.size, self.handle))
        if sys.platform != "win32":
            reduction.send_handle(connection, self.handle, None)

    @classmethod
    def receive(cls, connection: Connection) -> SharedBlock:
        """The block that the process at the other end sends."""
        size, handle = connection.recv()
        if sys.platform != "win32":
            handle = reduction.recv_handle(connection)
        return cls(size, handle)

    def close(self) -> None:
        """Forget the handle, after which the block cannot be sent; the memory stays."""
        if sys.platform != "win32" and self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.close()


def _handle(size: int) -> Any:
    """The handle of new memory: an open file in no folder, or on Windows a tag."""
    if sys.platform == "win32":
        return f"treadle-{os.getpid()}-{secrets.token_hex(8)}"
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("treadle-loader")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle


class Packed:
    """A value as bytes: its pickle, then the memory of the arrays in it.

    >>> packed = Packed([np.arange(3), "a"])
    >>> block = SharedBlock(packed.size)
    >>> packed.write(block)
    >>> SharedLease(block, []).read(packed.spans)
    [array([0, 1, 2]), 'a']
    """

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        text = pickle.dumps(value, 5, buffer_callback=buffers.append)
        self._parts = [memoryview(text), *(buffer.raw() for buffer in buffers)]
        self.spans: Spans = []
        self.size = 0
        for part in self._parts:
            self.spans.append((self.size, part.nbytes))
            self.size += -(-part.nbytes // _ALIGNMENT) * _ALIGNMENT

    def write(self, block: SharedBlock) -> None:
        """Copy the parts into a block of `size` bytes or more."""
        for (start, size), part in zip(self.spans, self._parts, strict=True):
            block.map[start : start + size] = part


class SharedLease:
    """A block in the hands of who reads arrays in it: then it is `free` again."""

    def __init__(self, block: SharedBlock, free: list[SharedBlock]) -> None:
        self._block = block
        self._free = free

    def read(self, spans: Sequence[tuple[int, int]], copy: bool = False) -> Any:
        """The value that was packed; its arrays are in the block, unless copied."""
        (start, size), *others = spans
        text = self._block.map[start : start + size]
        parts = [np.asarray(_Part(self, *span)) for span in others]
        return pickle.loads(text, buffers=[p.copy() for p in parts] if copy else parts)

    @property
    def address(self) -> int:
        """The address of the block in this process."""
        return self._block.address

    def __del__(self) -> None:
        self._free.append(self._block)


class _Part:
    """Bytes of a lease, as NumPy asks for them: an array of them keeps the lease."""

    def __init__(self, lease: SharedLease, start: int, size: int) -> None:
        self._lease = lease
        self.__array_interface__ = {
            "data": (lease.address + start, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }
