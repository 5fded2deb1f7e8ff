"""The text of kernels compiled for this processor: items one after the other.

Where they wait for each other, each item of a group is a thread, and a shuffle goes
through memory. Nothing else of the text is changed, so what it computes is seen without
a card: the bits of every operation are those of the processor.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from treadle.engines.gpu.cuda.builder import (
    BARRIER,
    REGISTERS,
    SHUFFLE,
    entry_of,
    text_of,
)
from treadle.engines.gpu.cuda.driver import DTYPES
from treadle.engines.gpu.driver import DeviceTraits
from treadle.engines.gpu.work import Work
from treadle.engines.native.codegen.jit import compile_functions

__all__ = ["HostDriver", "on_host"]

Array = np.ndarray[Any, Any]

# Threads meet by counting: the last to come begins the next round.
_MEETING = """
@meeting.count = internal global i32 0, align 4
@meeting.round = internal global i32 0, align 4
@exchange.cells = internal global [1024 x i32] zeroinitializer, align 16
declare i32 @sched_yield()
define internal void @meet() {
  %round = load atomic i32, ptr @meeting.round acquire, align 4
  %before = atomicrmw add ptr @meeting.count, i32 1 acq_rel
  %is.last = icmp eq i32 %before, LAST
  br i1 %is.last, label %last, label %wait
last:
  store atomic i32 0, ptr @meeting.count release, align 4
  %next = add i32 %round, 1
  store atomic i32 %next, ptr @meeting.round release, align 4
  ret void
wait:
  %now = load atomic i32, ptr @meeting.round acquire, align 4
  %same = icmp eq i32 %now, %round
  br i1 %same, label %again, label %end
again:
  %ignored = call i32 @sched_yield()
  br label %wait
end:
  ret void
}
define internal i32 @exchange.down(i32 %item, i32 %x, i32 %step) {
  %lane = and i32 %item, 31
  %there = add i32 %lane, %step
  %inside = icmp ult i32 %there, 32
  %far = add i32 %item, %step
  %place = select i1 %inside, i32 %far, i32 %item
  %found = call i32 @exchange(i32 %item, i32 %x, i32 %place)
  ret i32 %found
}
define internal i32 @exchange.idx(i32 %item, i32 %x, i32 %number) {
  %first = and i32 %item, -32
  %place = or i32 %first, %number
  %found = call i32 @exchange(i32 %item, i32 %x, i32 %place)
  ret i32 %found
}
define internal i32 @exchange(i32 %item, i32 %x, i32 %place) {
  %own = getelementptr i32, ptr @exchange.cells, i32 %item
  store i32 %x, ptr %own
  call void @meet()
  %source = getelementptr i32, ptr @exchange.cells, i32 %place
  %found = load i32, ptr %source
  call void @meet()
  ret i32 %found
}
"""
# Items `first` to `stop` of each group after the other.
_LOOP = """
define void @ENTRY(ptr %arguments, i32 %first, i32 %stop, i32 %groups) {
entry:
LOADS
  br label %groups.head
groups.head:
  %group = phi i32 [0, %entry], [%group.next, %groups.end]
  %more.groups = icmp ult i32 %group, %groups
  br i1 %more.groups, label %items.head, label %done
items.head:
  %item = phi i32 [%first, %groups.head], [%item.next, %items.body]
  %more.items = icmp ult i32 %item, %stop
  br i1 %more.items, label %items.body, label %groups.end
items.body:
  call void @KERNEL(i32 %item, i32 %group, PASSED)
  %item.next = add i32 %item, 1
  br label %items.head
groups.end:
  MEET
  %group.next = add i32 %group, 1
  br label %groups.head
done:
  ret void
}
"""


def on_host(text: str, name: str, items: int) -> tuple[str, bool]:
    """The module of a kernel for a processor, and whether its items wait."""
    waits = BARRIER in text or SHUFFLE in text
    head = re.search(rf"define ptx_kernel void @{name}\((.*?)\) #0", text)
    assert head is not None
    parameters = [p.split() for p in head[1].split(", ")]
    rules = [
        (r"declare [^\n]*@llvm\.nvvm[^\n]*\n", ""),
        (r"attributes #0[^\n]*\n", ""),
        (
            re.escape(head[0]),
            f"define internal void @{name}(i32 %tid, i32 %ctaid, {head[1]})",
        ),
        (rf"call i32 @{re.escape(REGISTERS)}\.(\w+)\.x\(\)", r"add i32 %\1, 0"),
        (rf"call void @{re.escape(BARRIER)}\(i32 0\)", "call void @meet()"),
        (
            rf"call i32 @{re.escape(SHUFFLE)}\.(\w+)\.i32"
            r"\(i32 \S+, (i32 \S+), (i32 \d+), i32 31\)",
            r"call i32 @exchange.\1(i32 %tid, \2, \3)",
        ),
        (r"addrspacecast \(ptr addrspace\(3\) (@\w+) to ptr\)", r"\1"),
        (
            r"internal addrspace\(3\) global (.*) poison",
            r"internal global \1 zeroinitializer",
        ),
    ]
    for pattern, by in rules:
        text = re.sub(pattern, by, text)
    loads = [
        line
        for k, (kind, p) in enumerate(parameters)
        for line in (
            f"  %place{k} = getelementptr i64, ptr %arguments, i64 {k}",
            f"  {p} = load {kind}, ptr %place{k}",
        )
    ]
    loop = _LOOP.replace("LOADS", "\n".join(loads)).replace("PASSED", head[1])
    loop = loop.replace("KERNEL", name).replace("ENTRY", f"host_{name}")
    loop = loop.replace("MEET", "call void @meet()" if waits else "")
    meeting = _MEETING.replace("LAST", str(items - 1)) if waits else ""
    return text + meeting + loop, waits


@dataclass(frozen=True)
class _Entry:
    address: int
    items: int
    waits: bool


class HostMemory:
    """An array of this process, known by its identity."""

    def __init__(self, cells: Array) -> None:
        self.cells, self.bytes = cells, len(cells)


class HostDriver:
    """Kernels of CUDA on arrays of this process, as `DeviceDriver` has it."""

    def __init__(self) -> None:
        self.device = DeviceTraits("this processor", "host", 128, 256, 128, DTYPES)

    def allocate(self, bytes: int) -> HostMemory:
        return HostMemory(np.full(bytes, 0xA5, np.uint8))

    def free(self, memory: HostMemory) -> None:
        """The garbage collector has it."""

    def upload(self, array: Array, memory: HostMemory, offset: int) -> None:
        data = array.reshape(-1).view(np.uint8)
        memory.cells[offset : offset + array.nbytes] = data

    def download(self, memory: HostMemory, offset: int, array: Array) -> None:
        data = memory.cells[offset : offset + array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = data

    def copy(self, source: Any, target: Any, bytes: int) -> None:
        parts = [m.cells[offset : offset + bytes] for m, offset in (target, source)]
        parts[0][:] = parts[1]

    def fill(self, place: Any, bytes: int, byte: int) -> None:
        memory, offset = place
        memory.cells[offset : offset + bytes] = byte

    def compile(self, work: Work) -> _Entry:
        name = entry_of(work)
        text, waits = on_host(text_of(work), name, work.items)
        address = compile_functions({f"host_{name}": text})[f"host_{name}"]
        return _Entry(address, work.items, waits)

    def numbers(self, work: Work, values: Sequence[int]) -> list[int]:
        return list(values)

    def bind(
        self, entry: _Entry, groups: int, buffers: Sequence[Any], numbers: list[int]
    ) -> Any:
        return partial(self._launch, entry, groups, buffers, numbers)

    def submit(self, calls: Sequence[Any]) -> None:
        for call in calls:
            call()

    def _launch(
        self, entry: _Entry, groups: int, buffers: Sequence[Any], numbers: list[int]
    ) -> None:
        places = [memory.cells.ctypes.data + offset for memory, offset in buffers]
        arguments = np.array([*places, *numbers], np.int64)
        kinds = [ctypes.c_void_p, *[ctypes.c_int32] * 3]
        run = ctypes.CFUNCTYPE(None, *kinds)(entry.address)
        if not entry.waits:
            run(arguments.ctypes.data, 0, entry.items, groups)
            return
        threads = [
            threading.Thread(target=run, args=(arguments.ctypes.data, k, k + 1, groups))
            for k in range(entry.items)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def text(self, work: Work) -> str:
        return text_of(work)
