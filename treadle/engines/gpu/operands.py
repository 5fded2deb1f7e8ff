"""Places of the operands of products and convolutions, term by term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from treadle.base.dtypes import DType, int8
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.elements import from_memory, load_type
from treadle.program.convolution import Convolution
from treadle.program.program import Product


class Whole:
    """An integer that is computed: `x * 3 + y` appends instructions."""

    __slots__ = ("b", "value")

    def __init__(self, b: DeviceBuilder, value: Value) -> None:
        self.b, self.value = b, value

    def _lift(self, other: Whole | int) -> Value:
        return self.b.i64(other) if isinstance(other, int) else other.value

    def __add__(self, other: Whole | int) -> Whole:
        if other == 0 and isinstance(other, int):
            return self
        return Whole(self.b, self.b.add(self.value, self._lift(other)))

    def __sub__(self, other: Whole | int) -> Whole:
        return Whole(self.b, self.b.sub(self.value, self._lift(other)))

    def __mul__(self, other: Whole | int) -> Whole:
        return Whole(self.b, self.b.mul(self.value, self._lift(other)))

    def split(self, by: Whole | int) -> tuple[Whole, Whole]:
        """Quotient and remainder of what is not negative."""
        divisor = self._lift(by)
        quotient = Whole(self.b, self.b.udiv(self.value, divisor))
        return quotient, Whole(self.b, self.b.urem(self.value, divisor))

    def __lt__(self, other: Whole | int) -> Whole:
        return self._compared("slt", other)

    def __ge__(self, other: Whole | int) -> Whole:
        return self._compared("sge", other)

    def equals(self, other: Whole | int) -> Whole:
        """Return True if they are the same."""
        return self._compared("eq", other)

    def _compared(self, how: str, other: Whole | int) -> Whole:
        return Whole(self.b, self.b.compare(how, self.value, self._lift(other)))

    def __and__(self, other: Whole) -> Whole:
        return Whole(self.b, self.b.and_(self.value, other.value))


class Sides(NamedTuple):
    """Sizes of a product, its numbers by name, and how its operands lie."""

    computes: str
    batch: int
    m: int
    n: int
    k: int
    along: tuple[bool, bool]
    numbers: dict[str, int]


def operands_of(step: Product) -> Sides:
    """The operands of a product, as rows and columns of terms."""
    if isinstance(step.layout, Convolution):
        return _convolution(step.layout, step.offsets)
    layout = step.layout
    batch, m, n, k = layout.sizes
    numbers = {"a": step.offsets[0], "b": step.offsets[1]}
    for name, strides in (("a", layout.a), ("b", layout.b), ("c", layout.c)):
        numbers |= {f"{name}{i}": s for i, s in enumerate(strides)}
    along = layout.a[2] == 1, layout.b[1] == 1 and layout.b[2] != 1
    return Sides("product", batch, m, n, k, along, numbers)


def _convolution(conv: Convolution, offsets: tuple[int, int]) -> Sides:
    pixels, points = conv.counts[0] * conv.counts[1], conv.extents[0] * conv.extents[1]
    taps = conv.kernel[0] * conv.kernel[1]
    o, c = conv.o // conv.groups, conv.c // conv.groups
    sizes = {
        "y": (conv.n * conv.groups, o, pixels, c * taps),
        "x": (conv.n * conv.groups, c, points, o * taps),
        "w": (conv.groups, o, c * taps, conv.n * pixels),
    }[conv.computes]
    first = {"y": "xw", "x": "yw", "w": "xy"}[conv.computes]
    numbers = dict(zip(first, offsets, strict=True))
    numbers |= {conv.computes: 0, "groups": conv.groups, "o": o, "c": c}
    for name, pair in (
        ("extent", conv.extents),
        ("kernel", conv.kernel),
        ("count", conv.counts),
        ("stride", conv.stride),
        ("padding", tuple(p[0] for p in conv.padding)),
        ("dilation", conv.dilation),
        ("x", conv.x),
        ("w", conv.w),
        ("y", conv.y),
    ):
        numbers |= {f"{name}{i}": s for i, s in enumerate(pair)}
    computes = conv.computes
    batch, m, n, k = sizes
    if computes == "y" and conv.along == "outputs":
        computes, m, n = "yt", n, m
    return Sides(computes, batch, m, n, k, (True, False), numbers)


class Element(NamedTuple):
    """An element of an operand: its place, and whether it is there (None: it is)."""

    place: Whole
    there: Whole | None = None

    def read(self, buffer: Value, dtype: DType, inside: Whole) -> Value:
        """Its value as it is computed with; 0 where it is not inside, or not there."""
        b, memory = inside.b, load_type(dtype)
        condition = inside if self.there is None else inside & self.there
        pointer = b.offset(buffer, self.place.value, memory)
        x = b.guarded(memory, condition.value, pointer)
        return (
            b.convert("sitofp", x, "float")
            if dtype == int8
            else from_memory(b, x, dtype)
        )


class ProductOperand:
    """One side of a product, in a batch: its elements by row or column, and term.

    Of a convolution, batches are the groups of images; rows are outputs (for the
    gradient of the data: channels), columns pixels (for that of the weights: taps).
    """

    def __init__(
        self, computes: str, side: int, batch: Whole, numbers: Mapping[str, Whole]
    ) -> None:
        self.computes, self.side, self.batch, self.n = computes, side, batch, numbers
        if computes in ("y", "yt", "x"):
            self.image, self.group = batch.split(numbers["groups"])
        elif computes == "w":
            self.group = batch

    @property
    def buffer(self) -> int:
        """The number of its buffer: weights come last, and y after x."""
        straight = self.computes in ("product", "yt")
        return self.side if straight else 1 - self.side

    def element(self, at: Whole, term: Whole) -> Element:
        """The element in a row (of the first operand) or column, at a term."""
        n = self.n
        if self.computes == "product":
            name = "ab"[self.side]
            row, step = (1, 2) if self.side == 0 else (2, 1)
            place = self.batch * n[f"{name}0"] + n[name]
            return Element(place + at * n[f"{name}{row}"] + term * n[f"{name}{step}"])
        if self.computes == "w":
            return self._of_weights(at, term)
        if self.computes == "x":
            return self._of_data(at, term)
        weights = (self.side == 0) == (self.computes == "y")
        channel, tap = term.split(n["kernel0"] * n["kernel1"])
        if weights:
            return Element(self._weight(at, channel, tap))
        return self._pixel(self.image, channel, at, tap)

    def _tap(self, tap: Whole) -> tuple[Whole, Whole]:
        return tap.split(self.n["kernel1"])

    def _weight(self, output: Whole, channel: Whole, tap: Whole) -> Whole:
        """The place of a weight of the group."""
        n = self.n
        down, right = self._tap(tap)
        place = (self.group * n["o"] + output) * n["w0"] + channel * n["w1"] + n["w"]
        return place + down * n["w2"] + right * n["w3"]

    def _pixel(self, image: Whole, channel: Whole, pixel: Whole, tap: Whole) -> Element:
        """The pixel of x that a pixel of y reads at a tap."""
        n = self.n
        taps, pixels = self._tap(tap), pixel.split(n["count1"])
        place = image * n["x0"] + (self.group * n["c"] + channel) * n["x1"] + n["x"]
        there: Whole | None = None
        for i, (t, p) in enumerate(zip(taps, pixels, strict=True)):
            at = p * n[f"stride{i}"] + t * n[f"dilation{i}"] - n[f"padding{i}"]
            inside = (at >= 0) & (at < n[f"extent{i}"])
            there = inside if there is None else there & inside
            place = place + at * n[f"x{i + 2}"]
        return Element(place, there)

    def _of_weights(self, at: Whole, term: Whole) -> Element:
        """Of the gradient of the weights: x by taps, y by outputs, over pixels."""
        n = self.n
        image, pixel = term.split(n["count0"] * n["count1"])
        if self.side == 0:
            return Element(self._result_pixel(image, at, pixel))
        channel, tap = at.split(n["kernel0"] * n["kernel1"])
        return self._pixel(image, channel, pixel, tap)

    def _result_pixel(self, image: Whole, output: Whole, pixel: Whole) -> Whole:
        """The place of a pixel of y."""
        n = self.n
        down, right = pixel.split(n["count1"])
        place = image * n["y0"] + (self.group * n["o"] + output) * n["y1"] + n["y"]
        return place + down * n["y2"] + right * n["y3"]

    def _of_data(self, at: Whole, term: Whole) -> Element:
        """Of the gradient of the data: weights by channels, y by pixels of x."""
        n = self.n
        output, tap = term.split(n["kernel0"] * n["kernel1"])
        if self.side == 0:
            return Element(self._weight(output, at, tap))
        taps, points = self._tap(tap), at.split(n["extent1"])
        place = self.image * n["y0"] + (self.group * n["o"] + output) * n["y1"] + n["y"]
        there: Whole | None = None
        for i, (t, p) in enumerate(zip(taps, points, strict=True)):
            moved = p + n[f"padding{i}"] - t * n[f"dilation{i}"]
            pixel, rest = moved.split(n[f"stride{i}"])
            inside = (moved >= 0) & rest.equals(0) & (pixel < n[f"count{i}"])
            there = inside if there is None else there & inside
            place = place + pixel * n[f"y{i + 2}"]
        return Element(place, there)

    # -- results -----------------------------------------------------------------------

    def result(self, row: Whole, column: Whole) -> tuple[Whole, Whole, Whole]:
        """Batch, row and column as what finishes the product counts them."""
        if self.computes == "y":
            return self.image, self.group * self.n["o"] + row, column
        if self.computes == "yt":
            return self.image, row, self.group * self.n["o"] + column
        return self.batch, row, column

    def place(self, row: Whole, column: Whole) -> Whole:
        """The place of an element of the result."""
        n = self.n
        if self.computes == "product":
            return self.batch * n["c0"] + row * n["c1"] + column * n["c2"]
        if self.computes == "y":
            return self._result_pixel(self.image, row, column)
        if self.computes == "yt":
            return self._result_pixel(self.image, column, row)
        if self.computes == "w":
            channel, tap = column.split(n["kernel0"] * n["kernel1"])
            return self._weight(row, channel, tap)
        down, right = column.split(n["extent1"])
        place = self.image * n["x0"] + (self.group * n["c"] + row) * n["x1"]
        return place + down * n["x2"] + right * n["x3"]
