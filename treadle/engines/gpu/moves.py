"""Kernels that move rows: gather them, copy, and add them to where they belong."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.base.dtypes import DType, int32
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.gpu.operands import split
from treadle.engines.gpu.work import Work
from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.elementary.terms import Term
from treadle.engines.native.codegen.elements import load_type
from treadle.loops.kernel import KernelArgument

ITEMS = 64
WORD = 4  # bytes: what places are counted in
# Of each: the integers of a launch; `first` is the place in the list of places of the
# first row. Others than in that list are counted in elements.
FIELDS = {
    "gather": ("total", "target", "source", "first", "width"),
    "copy": ("total", "target", "source"),
    "add": ("total", "source", "first", "rows"),
}


@dataclass(frozen=True)
class RowMove:
    """A move of rows, of a target, a source, and a list of places.

    `gather` reads rows from these places of the source, `add` adds rows of the source
    to these of the target: an item has a column, and adds all its rows in order.
    """

    name: str
    dtype: DType

    def work(self) -> Work:
        """The work of a launch."""
        target, source = KernelArgument(self.dtype, True), KernelArgument(self.dtype)
        places = () if self.name == "copy" else (KernelArgument(int32),)
        slots = tuple((k, "i64") for k in range(len(FIELDS[self.name])))
        buffers = target, source, *places
        return Work(self, self.write, buffers, slots, ITEMS, self.name)

    def write(self, b: DeviceBuilder) -> None:
        number = {
            name: Term(b, b.slot(k, "i64")) for k, name in enumerate(FIELDS[self.name])
        }
        item = Term(b, b.group()) * ITEMS + Term(b, b.item())
        with b.when((item < number["total"]).value):
            if self.name == "add":
                self._add(b, item, number)
                return
            source = number["source"] + item
            if self.name == "gather":
                row, column = split(item, number["width"])
                source = self._place(b, number["first"] + row) + column
            self._store(b, number["target"] + item, self._load(b, 1, source))

    def _add(self, b: DeviceBuilder, column: Term, number: dict[str, Term]) -> None:
        rows, one = number["rows"].value, b.i64(1)
        with b.loop(b.i64(0), rows, one) as turn:
            row = Term(b, turn.index)
            target = self._place(b, number["first"] + row) + column
            source = number["source"] + row * number["total"] + column
            x, y = self._load(b, 0, target), self._load(b, 1, source)
            self._store(b, target, b.fadd(x, y))

    def _place(self, b: DeviceBuilder, row: Term) -> Term:
        """The place of a row, as the list has it."""
        place = b.load("i32", b.offset(b.buffer(2), row.value, "i32"))
        words = Term(b, b.convert("sext", place, "i64"))
        return split(words, self.dtype.itemsize // WORD)[0]

    def _load(self, b: DeviceBuilder, buffer: int, place: Term) -> Value:
        kind = load_type(self.dtype)
        return b.load(kind, b.offset(b.buffer(buffer), place.value, kind))

    def _store(self, b: DeviceBuilder, place: Term, x: Value) -> None:
        b.store(x, b.offset(b.buffer(0), place.value, load_type(self.dtype)))
