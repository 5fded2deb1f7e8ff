"""An emulated device: groups of items that run PTX, all of a block of groups at once.

The items whose place in the text is least go on, so that those that parted meet again.
Faults that a device reports, or does not: addresses outside of allocations, a barrier
or a shuffle that not all reach, shared memory that two items touch with none between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.engines.cuda.arithmetic import (
    BINARY,
    UNARY,
    compare,
    convert,
    multiply,
    ternary,
)
from tests.engines.cuda.assembly import SIZES, Entry, Instruction
from tests.engines.cuda.memory import Fault, GlobalMemory
from tests.engines.cuda.state import STARTS, State, dtype_of, listed

__all__ = ["launch"]

Array = np.ndarray[Any, Any]
WARP = 32
MOST = 1 << 14  # items that run at once


def launch(
    memory: GlobalMemory,
    constants: dict[str, int],
    entry: Entry,
    groups: int,
    parameters: Sequence[int],
) -> None:
    """Run all groups of an entry; `constants` has the addresses of variables."""
    each = max(MOST // entry.items, 1)
    for first in range(0, groups, each):
        block = range(first, min(first + each, groups))
        _Block(memory, constants, entry, block, parameters).run()


class _Block(State):
    """Groups that run at once."""

    # -- the run -----------------------------------------------------------------------

    def run(self) -> None:
        instructions = self.entry.instructions
        with np.errstate(all="ignore"):
            while True:
                ready = ~(self.done | self.waiting | self.early)
                if not ready.any():
                    if self.early.any():
                        raise Fault("not all items of a warp reach a shuffle")
                    if not self.waiting.any():
                        return
                    self._release()
                    continue
                place = int(self.at[ready].min())
                active = ready & (self.at == place)
                self.mask = None if active.all() else active
                self._block(instructions, place, active)

    def _block(
        self, instructions: list[Instruction], place: int, active: Array
    ) -> None:
        """Run until items may part or others may join."""
        while True:
            x = instructions[place]
            place += 1
            if x.name in ("bra", "ret", "bar", "barrier", "exit"):
                self._control(x, place, active)
                return
            assert not x.condition, f"a condition of {x.opcode}"
            if x.name == "shfl" and self.mask is not None and self._waits(place - 1):
                return
            self._execute(x)
            if place in self.starts:
                self.at[active] = place
                return

    def _control(self, x: Instruction, following: int, active: Array) -> None:
        if x.name == "bra":
            taken = active
            if x.condition:
                taken = active & (self.registers[x.condition] ^ x.negated)
            self.at[active] = following
            self.at[taken] = self.entry.labels[x.operands[0]]
        elif x.name in ("ret", "exit"):
            self.done |= active
        else:
            self.at[active] = following
            self.waiting |= active

    def _waits(self, place: int) -> bool:
        """Whether some items have come early to a shuffle, for which all of a warp wait
        for each other."""
        assert self.mask is not None
        self.at[self.mask] = place
        here = ~(self.done | self.waiting) & (self.at == place)
        warp = self.group * (self.items + WARP) + self.own % self.items // WARP
        whole = (np.bincount(warp, here) == np.bincount(warp))[warp]
        self.early = (self.early & ~here) | (here & ~whole)
        return not bool((self.mask == (here & whole)).all())

    def _release(self) -> None:
        """Let those go on who wait at a barrier: all of a group, at one."""
        grid = (self.count, self.items)
        waiting, at = self.waiting.reshape(grid), self.at.reshape(grid)
        some = waiting.any(1)
        if not waiting[some].all() or (at[some] != at[some][:, :1]).any():
            raise Fault("not all items of a group reach a barrier")
        self.waiting[:] = False
        self.epoch += some

    # -- instructions ------------------------------------------------------------------

    def _execute(self, x: Instruction) -> None:
        rule = _RULES.get(x.name)
        if rule is not None:
            rule(self, x)
            return
        kind = x.types[0] if x.types else "pred"
        values = [self.read(o, kind) for o in x.operands[1:]]
        if x.name in UNARY:
            found = UNARY[x.name](values[0])
        elif x.name in ("shl", "shr"):
            found = BINARY[x.name](values[0], self.read(x.operands[2], "u32"))
        elif x.name in BINARY:
            found = BINARY[x.name](*values)
        elif x.name == "mul":
            found = multiply(x.parts, *values)
        else:
            raise NotImplementedError(x.opcode)
        _rounds(x)
        self.write(x.operands[0], found)

    def _ternary(self, x: Instruction) -> None:
        kind = x.types[0]
        wide = f"{kind[0]}{2 * int(kind[1:])}" if "wide" in x.parts else kind
        kinds = kind, kind, wide
        values = [self.read(o, k) for o, k in zip(x.operands[1:], kinds, strict=True)]
        _rounds(x)
        self.write(x.operands[0], ternary(x.name, x.parts, *values))

    def _setp(self, x: Instruction) -> None:
        x_, y, *rest = x.operands[1:]
        how, *more = [p for p in x.parts if p not in SIZES]
        found = compare(how, self.read(x_, x.types[0]), self.read(y, x.types[0]))
        if more and more[0] != "ftz":
            found = BINARY[more[0]](found, self.read(rest[0], "pred"))
        self.write(x.operands[0], found)

    def _selp(self, x: Instruction) -> None:
        values = [self.read(o, x.types[0]) for o in x.operands[1:3]]
        self.write(x.operands[0], np.where(self.read(x.operands[3], "pred"), *values))

    def _cvt(self, x: Instruction) -> None:
        target, source = x.types
        value = self.read(x.operands[1], source)
        self.write(x.operands[0], convert(x.parts, value, dtype_of(target)))

    def _mov(self, x: Instruction) -> None:
        target, source = x.operands
        kind = x.types[0] if x.types else "pred"
        if target.startswith("{"):
            names = listed(target)
            half = f"b{8 * SIZES[kind] // len(names)}"
            whole = self.read(source, kind)
            for k, name in enumerate(names):
                moved = whole >> whole.dtype.type(8 * k * SIZES[half])
                self.write(name, moved.astype(dtype_of(half)))
        elif source.startswith("{"):
            names = listed(source)
            bits = 8 * SIZES[kind] // len(names)
            found: Any = np.zeros((), dtype_of(kind))
            for k, name in enumerate(names):
                part = self.read(name, f"b{bits}").astype(dtype_of(kind))
                found = found | part << part.dtype.type(bits * k)
            self.write(target, found)
        else:
            self.write(target, self.read(source, kind))

    def _bfe(self, x: Instruction) -> None:
        whole = self.read(x.operands[1], x.types[0])
        start, count = (int(o) for o in x.operands[2:4])
        bits = 8 * whole.dtype.itemsize
        high = whole << whole.dtype.type(bits - start - count)
        self.write(x.operands[0], high >> whole.dtype.type(bits - count))

    def _shfl(self, x: Instruction) -> None:
        """The value of another item of the warp, which all of the warp reach."""
        value = self.read(x.operands[1], "b32")
        step = int(x.operands[2])
        lane = self.own % self.items % WARP
        there = lane + step if "down" in x.parts else np.full_like(lane, step)
        assert {"down", "idx"} & {*x.parts}, x.opcode
        last = self.items - self.own % self.items + lane - 1
        inside = there <= np.minimum(last, WARP - 1)
        source = np.where(inside, self.own + there - lane, self.own)
        self.write(x.operands[0], value[source])

    def _cvta(self, x: Instruction) -> None:
        start = STARTS[next(p for p in x.parts if p in STARTS)]
        address = self.read(x.operands[1], "u64")
        moved = (
            address - np.uint64(start)
            if "to" in x.parts
            else address + np.uint64(start)
        )
        self.write(x.operands[0], moved)

    def _ld(self, x: Instruction) -> None:
        targets = listed(x.operands[0])
        kind = x.types[0]
        if "param" in x.parts:
            bits = self.parameters[x.operands[1].strip("[]")] & (
                (1 << 8 * SIZES[kind]) - 1
            )
            self.write(targets[0], np.array(bits, f"u{SIZES[kind]}"))
            return
        space, address = self.access(x, x.operands[1])
        for k, name in enumerate(targets):
            self.write(
                name, self.load(space, address + np.uint64(k * SIZES[kind]), kind)
            )

    def _st(self, x: Instruction) -> None:
        kind = x.types[0]
        space, address = self.access(x, x.operands[0])
        where = self.where()
        for k, name in enumerate(listed(x.operands[1])):
            value = np.broadcast_to(self.read(name, kind), (self.total,))[where]
            own = address[where] + np.uint64(k * SIZES[kind])
            cells, place = self.cells(space, own, where, SIZES[kind], 0)
            cells.view(dtype_of(kind)).reshape(-1)[place] = value


def _rounds(x: Instruction) -> None:
    """Raise for an operation on floats that an assembler may join with another."""
    joins = x.name in ("add", "sub", "mul", "div", "rcp", "sqrt", "fma")
    floats = {"f32", "f64"} & {*x.types}
    if joins and floats and ("rn" not in x.parts or "ftz" in x.parts):
        raise Fault(f"{x.opcode} has no rounding of its own")


_RULES: dict[str, Callable[[_Block, Instruction], None]] = {
    "fma": _Block._ternary,
    "mad": _Block._ternary,
    "setp": _Block._setp,
    "selp": _Block._selp,
    "cvt": _Block._cvt,
    "cvta": _Block._cvta,
    "mov": _Block._mov,
    "bfe": _Block._bfe,
    "shfl": _Block._shfl,
    "ld": _Block._ld,
    "st": _Block._st,
}
