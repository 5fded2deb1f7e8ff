"""Places of the operands of products and convolutions, term by term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.base.dtypes import DType, int8
from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.elementary.terms import Term
from treadle.engines.native.codegen.elements import from_memory, load_type
from treadle.program.convolution import Convolution
from treadle.program.program import Product


def split(x: Term, by: Term | int) -> tuple[Term, Term]:
    """The quotient and the remainder of what is not negative."""
    b, divisor = x.b, x.lift(by)
    return Term(b, b.udiv(x.value, divisor)), Term(b, b.urem(x.value, divisor))


class SumForm(NamedTuple):
    """A sum of products: the coordinates, slowest first, that number its batches, rows,
    columns and terms; the tensors that it reads by rows and by columns, and makes.
    """

    batches: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    terms: tuple[str, ...]
    reads: str
    makes: str


# A pixel of y (p) reads points of x (q), one for each tap (t) of the kernel; "yt" is y
# with outputs as columns.
_IMAGES, _PIXELS, _POINTS = ("image", "group"), ("p0", "p1"), ("q0", "q1")
_TAPS = ("channel", "t0", "t1")
FORMS = {
    "product": SumForm(("batch",), ("row",), ("column",), ("term",), "ab", "c"),
    "y": SumForm(_IMAGES, ("output",), _PIXELS, _TAPS, "wx", "y"),
    "yt": SumForm(_IMAGES, _PIXELS, ("output",), _TAPS, "xw", "y"),
    "x": SumForm(_IMAGES, ("channel",), _POINTS, ("output", "t0", "t1"), "wy", "x"),
    "w": SumForm(("group",), ("output",), _TAPS, ("image", *_PIXELS), "yx", "w"),
}
# The coordinates of each tensor; "outputs" and "channels" count those of all groups.
AXES = {
    "a": ("batch", "row", "term"),
    "b": ("batch", "term", "column"),
    "c": ("batch", "row", "column"),
    "x": ("image", "channels", *_POINTS),
    "w": ("outputs", *_TAPS),
    "y": ("image", "outputs", *_PIXELS),
}
BUFFERS = "abxyw"  # in this order: weights come last


def numbers_of(step: Product) -> tuple[str, dict[str, int]]:
    """The form of a product, and its numbers by name: extents of coordinates, offsets
    and strides of tensors, and how windows slide.
    """
    layout = step.layout
    if isinstance(layout, Convolution):
        outputs = layout.computes == "y" and layout.along == "outputs"
        computes = "yt" if outputs else layout.computes
        numbers = {
            "image": layout.n,
            "group": layout.groups,
            "output": layout.o // layout.groups,
            "channel": layout.c // layout.groups,
        }
        lists = {
            "x": layout.x,
            "w": layout.w,
            "y": layout.y,
            "p": layout.counts,
            "q": layout.extents,
            "t": layout.kernel,
            "step": layout.stride,
            "apart": layout.dilation,
            "before": tuple([low for low, _ in layout.padding]),
        }
    else:
        computes, lists = "product", {"a": layout.a, "b": layout.b, "c": layout.c}
        names = "batch", "row", "column", "term"
        numbers = dict(zip(names, layout.sizes, strict=True))
    for name, values in lists.items():
        numbers |= {f"{name}{k}": value for k, value in enumerate(values)}
    offsets = zip(buffers_of(FORMS[computes]), step.offsets, strict=True)
    return computes, numbers | dict(offsets)


def buffers_of(form: SumForm) -> list[str]:
    """The tensors that are read, in the order of their buffers."""
    return sorted(form.reads, key=BUFFERS.index)


class Element(NamedTuple):
    """An element of an operand: its place, and whether it is there (None: it is)."""

    place: Term
    there: Term | None = None

    def read(self, buffer: Value, dtype: DType, inside: Term) -> Value:
        """Its value as it is computed with; 0 where it is not inside, or not there."""
        b, memory = inside.b, load_type(dtype)
        condition = inside if self.there is None else inside & self.there
        pointer = b.offset(buffer, self.place.value, memory)
        x = b.guarded(memory, condition.value, pointer)
        if dtype == int8:
            return b.convert("sitofp", x, "float")
        return from_memory(b, x, dtype)


class Operands:
    """The elements that a product, or a convolution, reads and makes in a batch."""

    def __init__(self, form: SumForm, batch: Term, numbers: Mapping[str, Term]) -> None:
        self.form, self.n = form, numbers
        self._batch = self._coordinates(form.batches, batch)

    def element(self, side: int, at: Term, term: Term) -> Element:
        """The element in a row (of the first operand) or column, at a term."""
        known = self._coordinates(self.form.columns if side else self.form.rows, at)
        known |= self._batch | self._coordinates(self.form.terms, term)
        return self._element(self.form.reads[side], known)

    def place(self, row: Term, column: Term) -> Term:
        """The place of an element of the result."""
        return self._element(self.form.makes, self._result(row, column)).place

    def result(self, row: Term, column: Term) -> tuple[Term, Term, Term]:
        """Batch, row and column as what finishes the product counts them."""
        at = self._result(row, column)
        if self.form.rows == ("output",):
            row, _ = self._index("outputs", at)
        elif self.form.columns == ("output",):
            column, _ = self._index("outputs", at)
        return at[self.form.batches[0]], row, column

    def _result(self, row: Term, column: Term) -> dict[str, Term]:
        known = self._coordinates(self.form.rows, row)
        return known | self._batch | self._coordinates(self.form.columns, column)

    def _coordinates(self, names: Sequence[str], number: Term) -> dict[str, Term]:
        """The coordinates that a number stands for."""
        at = {}
        for name in names[:0:-1]:
            number, at[name] = split(number, self.n[name])
        return {names[0]: number, **at}

    def _element(self, tensor: str, at: Mapping[str, Term]) -> Element:
        place, there = self.n.get(tensor), None
        for k, name in enumerate(AXES[tensor]):
            index, inside = self._index(name, at)
            if inside is not None:
                there = inside if there is None else there & inside
            step = index * self.n[f"{tensor}{k}"]
            place = step if place is None else place + step
        assert place is not None
        return Element(place, there)

    def _index(self, name: str, at: Mapping[str, Term]) -> tuple[Term, Term | None]:
        """A coordinate, and whether it is there: a point that a pixel reads at a tap,
        or the pixel that reads a point there, may lie outside.
        """
        n = self.n
        if name in at:
            return at[name], None
        if name in ("outputs", "channels"):
            one = name.removesuffix("s")
            return at["group"] * n[one] + at[one], None
        kind, i = name[0], name[1]
        step, before, tap = n[f"step{i}"], n[f"before{i}"], at[f"t{i}"] * n[f"apart{i}"]
        if kind == "q":
            point = at[f"p{i}"] * step + tap - before
            return point, (point >= 0) & (point < n[f"q{i}"])
        first = at[f"q{i}"] + before - tap
        pixel, rest = split(first, step)
        return pixel, (first >= 0) & rest.equals(0) & (pixel < n[f"p{i}"])
