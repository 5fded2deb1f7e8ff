"""What the items of groups have: registers, shared memory, places in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.engines.cuda.assembly import SIZES, Entry, Instruction
from tests.engines.cuda.memory import Fault, GlobalMemory

__all__ = ["STARTS", "State", "dtype_of", "listed"]

Array = np.ndarray[Any, Any]
SHARED, LOCAL = 1 << 36, 1 << 37  # where these begin among generic addresses
_REGISTERS = {"p": "?", "rs": "u2", "r": "u4", "rd": "u8", "SP": "u8", "SPL": "u8"}
STARTS = {"shared": SHARED, "local": LOCAL, "global": 0}


class State:
    """The state of groups that run at once: registers, shared memory, places."""

    def __init__(
        self,
        memory: GlobalMemory,
        constants: dict[str, int],
        entry: Entry,
        groups: range,
        parameters: Sequence[int],
    ) -> None:
        self.memory, self.entry = memory, entry
        self.count, self.items = len(groups), entry.items
        self.total = self.count * self.items
        item = np.tile(np.arange(self.items, dtype=np.uint32), self.count)
        group = np.repeat(
            np.arange(groups.start, groups.stop, dtype=np.uint32), self.items
        )
        self.own = np.arange(self.total)
        self.group = np.repeat(np.arange(self.count), self.items)
        self.registers: dict[str, Array] = {"%tid.x": item, "%ctaid.x": group}
        self.registers["%ntid.x"] = np.full(self.total, self.items, np.uint32)
        pairs = zip(entry.parameters, parameters, strict=True)
        self.parameters = {name: value for (name, _), value in pairs}
        self.symbols = dict(constants)
        self._place_variables()
        self.at = np.zeros(self.total, np.int64)
        self.waiting = np.zeros(self.total, bool)  # at a barrier
        self.early = np.zeros(self.total, bool)  # at a shuffle
        self.done = np.zeros(self.total, bool)
        self.mask: Array | None = None  # who runs, if not all do
        self.starts = frozenset(entry.labels.values())

    def _place_variables(self) -> None:
        sizes = {"shared": 0, "local": 0}
        for v in self.entry.variables:
            place = -(-sizes[v.space] // v.align) * v.align
            self.symbols[v.name] = place
            sizes[v.space] = place + v.bytes
        room = {space: -(-n // 16) * 16 for space, n in sizes.items()}
        self.spaces = {
            "shared": np.full((self.count, room["shared"]), 0xA5, np.uint8),
            "local": np.full((self.total, room["local"]), 0xA5, np.uint8),
        }
        # Of each byte that is shared: who wrote and read it last, and since when.
        self.epoch = np.zeros(self.count, np.int64)
        shape = (2, self.count, room["shared"])
        self.touched = np.full(shape, -1), np.full(shape, -1)

    # -- operands ----------------------------------------------------------------------

    def read(self, operand: str, kind: str) -> Any:
        """An operand as numbers of a type."""
        dtype = dtype_of(kind)
        if operand.startswith("%"):
            held = self.registers[operand]
            if kind == "pred":
                return held
            width = np.dtype(dtype).itemsize
            if held.dtype.itemsize != width:
                held = held.astype(f"u{width}")
            return held.view(dtype)
        if operand[:2] in ("0f", "0d"):
            whole = int(operand[2:], 16)
            return np.array(whole, f"u{len(operand[2:]) // 2}").view(dtype)[()]
        if operand in self.symbols:
            return np.array(self.symbols[operand], np.uint64).view(dtype)[()]
        number = int(operand, 0)
        if kind == "pred":
            return np.bool_(number)
        bits = 8 * SIZES[kind]
        return np.array(number & ((1 << bits) - 1), f"u{bits // 8}").view(dtype)[()]

    def write(self, name: str, value: Any) -> None:
        """Put a value into a register, where items run."""
        if name == "_":
            return
        kind = _REGISTERS[re.sub(r"[%\d]", "", name)]
        value = np.asarray(value)
        if kind != "?":
            width = int(kind[1])
            if value.dtype.itemsize != width:
                sign = value.dtype.kind if value.dtype.kind in "iu" else "u"
                bits = value.view(f"{sign}{value.dtype.itemsize}")
                value = bits.astype(f"{sign}{width}")
            value = value.view(kind)
        value = np.broadcast_to(value, (self.total,))
        old = self.registers.get(name)
        if self.mask is None or old is None:
            self.registers[name] = value.copy() if value.base is not None else value
        else:
            self.registers[name] = np.where(self.mask, value, old)

    # -- memory ------------------------------------------------------------------------

    def access(self, x: Instruction, operand: str) -> tuple[str, Array]:
        """The space and the addresses of an access."""
        found = re.fullmatch(r"\[([^+\]]+?)(?:\+(-?\d+))?\]", operand)
        assert found is not None, operand
        base = np.broadcast_to(self.read(found[1], "u64"), (self.total,))
        address = base + np.uint64(int(found[2] or 0) & ((1 << 64) - 1))
        known = [p for p in x.parts if p in ("global", "shared", "local", "const")]
        if known:
            return known[0], address
        where = self.mask if self.mask is not None else slice(None)
        spaces = {_space(int(address[where].min())), _space(int(address[where].max()))}
        assert len(spaces) == 1, "an access to several spaces"
        (space,) = spaces
        return space, address - np.uint64(STARTS[space])

    def load(self, space: str, address: Array, kind: str) -> Array:
        size, where = SIZES[kind], self.where()
        found = np.zeros(self.total, dtype_of(kind))
        cells, place = self.cells(space, address[where], where, size, 1)
        found[where] = cells.view(dtype_of(kind)).reshape(-1)[place]
        return found

    def where(self) -> Array:
        return self.own if self.mask is None else np.flatnonzero(self.mask)

    def cells(
        self, space: str, address: Array, where: Array, size: int, reads: int
    ) -> tuple[Array, Array]:
        """The memory of a space, and the places in it of what is touched."""
        if space in ("global", "const"):
            self.memory.check(address, size)
            return self.memory.cells, self.memory.place(address, size)
        cells = self.spaces[space]
        rows = self.group[where] if space == "shared" else where
        if len(address) and int(address.max()) + size > cells.shape[1]:
            raise Fault(f"{int(address.max())} lies outside of {space} memory")
        if (address % np.uint64(size)).any():
            raise Fault(f"an address in {space} memory is not aligned")
        column = address.astype(np.int64)
        if space == "shared":
            self._note(rows, column, where, size, reads)
        return cells, (rows * cells.shape[1] + column) // size

    def _note(
        self, rows: Array, column: Array, where: Array, size: int, reads: int
    ) -> None:
        """Fault where another item wrote a cell since the last barrier, or read one
        that is written now."""
        who, when = self.touched
        for k in range(0, size, 4):  # what is smaller than a word lies in one cell
            c = column + k
            for other in (0,) if reads else (0, 1):
                same = when[other, rows, c] == self.epoch[rows]
                if (same & (who[other, rows, c] != where)).any():
                    raise Fault("items of a group race for shared memory")
            again = reads and when[1, rows, c] == self.epoch[rows]
            several = again & (who[1, rows, c] != where) if reads else False
            # -2: several have read it, so that whoever writes it races.
            who[reads, rows, c] = np.where(several, -2, where)
            when[reads, rows, c] = self.epoch[rows]
            if reads:  # items that read one cell at once
                both = who[1, rows, c] != where
                who[1, rows[both], c[both]] = -2


def dtype_of(kind: str) -> str:
    sign = {"b": "u", "u": "u", "s": "i", "f": "f"}.get(kind[0], "?")
    return "?" if kind == "pred" else f"{sign}{SIZES[kind]}"


def _space(address: int) -> str:
    if SHARED <= address < LOCAL:
        return "shared"
    return "local" if LOCAL <= address < 2 * LOCAL else "global"


def listed(operand: str) -> list[str]:
    return [w.strip() for w in operand.strip("{}").split(",")]
