"""Convolutions as contractions of windows, which index arithmetic looks through.

Those of one or two dimensions stay: they have kernels of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import Any

from treadle.base.types import Shape
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.ops.contract import Contract
from treadle.ops.convolution import Conv, ConvInputGradient, ConvWeightGradient
from treadle.ops.movement import PermuteDims, Reshape, in_shape
from treadle.ops.window import Fold, Unfold, windows_along

# Letters: n images, g groups, o and c channels of a group, places x y z, taps i j k.
PLACES, TAPS = "xyz", "ijk"


def convolve(
    roots: Mapping[int, Tensor],
    nodes: Sequence[Tensor],
    direct: Callable[[Tensor], bool],
) -> dict[int, Tensor]:
    """The roots, with convolutions and their gradients as contractions.

    `nodes` are all that the roots depend on.
    Those that are `direct` have kernels of their own and stay. The channels of windows
    and of results lie innermost, where products read them.
    """
    if not any(map(_slides, nodes)):
        return dict(roots)
    rewritten: dict[int, Tensor] = {}
    windows: dict[Any, Tensor] = {}
    for node in nodes:
        inputs = tuple([rewritten.get(x.serial, x) for x in node.inputs])
        replacement = None
        if _slides(node) and not direct(node):
            replacement = _written_out(node.op, inputs, windows)
        elif any(map(is_not, inputs, node.inputs)):
            replacement = Tensor(node.op, inputs, node.type)
        if replacement is not None:
            replacement.origin = node.origin
            rewritten[node.serial] = replacement
    return {serial: rewritten.get(x.serial, x) for serial, x in roots.items()}


def _slides(node: Tensor) -> bool:
    return isinstance(node.op, (Conv, ConvInputGradient, ConvWeightGradient))


def _sees_pixels(op: Any, kernel: Shape) -> bool:
    """Whether the windows are the pixels."""
    return {*kernel, *op.stride} <= {1} and not any(map(any, op.padding))


def _written_out(
    op: Op, inputs: Sequence[Tensor], windows: dict[Any, Tensor]
) -> Tensor:
    """A convolution, or a gradient of one, as a contraction."""
    if isinstance(op, Conv):
        return _forward(op, inputs[0], inputs[1], windows)
    if isinstance(op, ConvInputGradient):
        return _to_input(op, inputs[0], inputs[1])
    assert isinstance(op, ConvWeightGradient)
    return _to_weights(op, inputs[0], inputs[1], windows)


def _permuted(x: Tensor, axes: str, wanted: str) -> Tensor:
    order = tuple(axes.index(c) for c in wanted)
    return x if axes == wanted else PermuteDims(order)(x)


def _windows(
    op: Any, x: Tensor, kernel: tuple[int, ...], known: dict[Any, Tensor]
) -> tuple[Tensor, str]:
    """The windows of an image, channels innermost, and the letters of their dimensions.

    One node for the windows of one image: both passes of a layer share it.
    """
    rank = len(kernel)
    key = (x.serial, kernel, op.sliding, op.groups)
    counts = windows_along(x.type.shape[2:], kernel, *op.sliding)
    axes = "ngc" + TAPS[:rank] + PLACES[:rank]
    wanted = "n" + PLACES[:rank] + "g" + TAPS[:rank] + "c"
    if key not in known:
        flat = x
        if not _sees_pixels(op, kernel):
            flat = Unfold(kernel, *op.sliding)(x)
        channels = x.type.shape[1] // op.groups
        shape = (x.type.shape[0], op.groups, channels, *kernel, *counts)
        windows = _permuted(Reshape(shape)(flat), axes, wanted)
        if op.groups == 1:
            _, windows = _without_groups(wanted, windows)
        known[key] = windows
    return known[key], wanted if op.groups > 1 else wanted.replace("g", "")


def _weights(op: Any, w: Tensor) -> tuple[Tensor, str]:
    """The weights with groups and channels apart, and their letters."""
    rank = w.type.ndim - 2
    shape = (op.groups, w.type.shape[0] // op.groups, *w.type.shape[1:])
    axes, wanted = "goc" + TAPS[:rank], "go" + TAPS[:rank] + "c"
    return _permuted(Reshape(shape)(w), axes, wanted), wanted


def _apart(op: Any, g: Tensor) -> tuple[Tensor, str]:
    """A result of a convolution with groups and channels apart, and its letters."""
    n, o, *counts = g.type.shape
    shape = (n, op.groups, o // op.groups, *counts)
    return Reshape(shape)(g), "ngo" + PLACES[: len(counts)]


def _without_groups(letters: str, x: Tensor) -> tuple[str, Tensor]:
    """An operand without the dimension of groups, of which there is one."""
    left = letters.replace("g", "")
    if left == letters:
        return letters, x
    shape = tuple(n for c, n in zip(letters, x.type.shape, strict=True) if c != "g")
    return left, Reshape(shape)(x)


def _contract(a: str, b: str, out: str, x: Tensor, y: Tensor) -> Tensor:
    """A contraction over letters of which those of one step are dropped."""
    sizes = dict(zip(a + b, x.type.shape + y.type.shape, strict=True))

    def kept(letters: str, t: Tensor) -> tuple[str, Tensor]:
        left = "".join(c for c in letters if sizes[c] != 1 or c != "g")
        return left, t if left == letters else Reshape(tuple(sizes[c] for c in left))(t)

    (a, x), (b, y) = kept(a, x), kept(b, y)
    result_axes = out if sizes.get("g", 1) > 1 else out.replace("g", "")
    product = Contract(f"{a},{b}->{result_axes}")(x, y)
    shape = tuple(sizes.get(c, 1) for c in out)
    return in_shape(product, shape)


def _forward(op: Conv, x: Tensor, w: Tensor, known: dict[Any, Tensor]) -> Tensor:
    windows, a = _windows(op, x, w.type.shape[2:], known)
    weights, b = _weights(op, w)
    places = PLACES[: w.type.ndim - 2]
    y = _contract(a, b, f"n{places}go", windows, weights)
    n, *counts = y.type.shape[: 1 + len(places)]
    flat = Reshape((n, *counts, w.type.shape[0]))(y)
    return _permuted(flat, f"n{places}o", f"no{places}")


def _to_weights(
    op: ConvWeightGradient, x: Tensor, g: Tensor, known: dict[Any, Tensor]
) -> Tensor:
    windows, a = _windows(op, x, op.kernel, known)
    apart, b = _apart(op, g)
    taps = TAPS[: len(op.kernel)]
    product = _contract(b, a, f"go{taps}c", apart, windows)
    permuted = _permuted(product, f"go{taps}c", f"goc{taps}")
    channels = x.type.shape[1] // op.groups
    return Reshape((g.type.shape[1], channels, *op.kernel))(permuted)


def _to_input(op: ConvInputGradient, g: Tensor, w: Tensor) -> Tensor:
    apart, a = _apart(op, g)
    weights, b = _weights(op, w)
    rank = w.type.ndim - 2
    places, taps = PLACES[:rank], TAPS[:rank]
    product = _contract(a, b, f"n{places}g{taps}c", apart, weights)
    permuted = _permuted(product, f"n{places}g{taps}c", f"ngc{taps}{places}")
    kernel, counts = w.type.shape[2:], g.type.shape[2:]
    if _sees_pixels(op, kernel):
        channels = w.type.shape[1] * op.groups
        return Reshape((g.type.shape[0], channels, *counts))(permuted)
    width = w.type.shape[1] * op.groups * math.prod(kernel)
    flat = Reshape((g.type.shape[0], width, math.prod(counts)))(permuted)
    return Fold(op.extents, kernel, *op.sliding)(flat)
