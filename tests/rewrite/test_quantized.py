"""Products and convolutions of dequantized bytes as products of bytes: the forms that
are recognized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.native.translation.translate import multiplies_bytes
from treadle.graph.traversal import reach
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract
from treadle.rewrite.simplify import narrowed, normal

RNG = np.random.default_rng(3)
START = RNG.bit_generator.state
F, I32 = "float32", "int32"


def drawn(kind: str, *shape: int) -> Any:
    ends = np.iinfo(kind)
    return td.asarray(RNG.integers(ends.min, ends.max + 1, shape).astype(kind))


def floats(*shape: int) -> Any:
    return td.asarray(RNG.uniform(0.01, 0.02, shape).astype(np.float32))


def whole(q: Any, zero: Any, scale: Any) -> Any:
    """(q - zero) scale, the difference in whole numbers."""
    return (q.astype(I32) - zero.astype(I32)).astype(F) * scale


def wide(q: Any, zero: Any, scale: Any) -> Any:
    """(q - zero) scale in floats."""
    return (q.astype(F) - zero.astype(F)) * scale


U, S = "uint8", "int8"
FORMS: dict[str, Callable[[], Any]] = {
    "scales of all": lambda: (
        whole(drawn(U, 20, 41), drawn(U), floats())
        @ whole(drawn(S, 41, 17), drawn(S), floats())
    ),
    "channels": lambda: (
        wide(drawn(U, 20, 41), drawn(U), floats())
        @ wide(drawn(S, 41, 17), drawn(S, 17), floats(17))
    ),
    "rows": lambda: (
        whole(drawn(S, 20, 40), drawn(S, 20, 1), floats(20, 1))
        @ whole(drawn(U, 40, 17), drawn(U), floats())
    ),
    "no offset": lambda: (
        whole(drawn(U, 20, 40), drawn(U), floats())
        @ td.dequantize(drawn(S, 17, 40), floats(17, 1)).mT
    ),
    "both unsigned, in heads": lambda: (
        whole(drawn(U, 3, 20, 40), drawn(U), floats())
        @ whole(drawn(U, 3, 40, 17), drawn(U), floats())
    ),
    "both signed": lambda: (
        td.dequantize(drawn(S, 20, 40), floats())
        @ td.dequantize(drawn(S, 40, 17), floats(17))
    ),
    "whole numbers": lambda: (
        (drawn(S, 20, 40).astype(I32) - drawn(S).astype(I32))
        @ (drawn(S, 40, 17).astype(I32) - drawn(S, 17).astype(I32))
    ),
    "images": lambda: td.conv2d(
        whole(drawn(U, 2, 8, 9, 7), drawn(U), floats()),
        whole(drawn(S, 24, 8, 3, 3), drawn(S, 24, 1, 1, 1), floats(24, 1, 1, 1)),
        stride=2,
        padding=1,
    ),
    "images, both signed": lambda: td.conv2d(
        whole(drawn(S, 2, 8, 9, 7), drawn(S), floats()),
        td.dequantize(drawn(S, 24, 8, 3, 3), floats()),
        padding=2,
        dilation=2,
    ),
    "images, both unsigned": lambda: td.conv2d(
        td.dequantize(drawn(U, 1, 8, 9, 7), floats()),
        whole(drawn(U, 24, 8, 2, 3), drawn(U), floats()),
        padding=1,
    ),
    "pixels": lambda: td.conv2d(
        wide(drawn(U, 2, 16, 9, 7), drawn(U), floats(1, 1, 1, 1)),
        td.dequantize(drawn(S, 24, 16, 1, 1), floats(24, 1, 1, 1)),
    ),
    "lines": lambda: td.conv1d(
        td.dequantize(drawn(U, 2, 8, 50), floats()),
        td.dequantize(drawn(S, 24, 8, 5), floats(24, 1, 1)),
        padding=2,
    ),
    "whole numbers of images": lambda: td.conv2d(
        drawn(U, 1, 8, 9, 7).astype("float64") - drawn(U).astype("float64"),
        drawn(S, 24, 8, 3, 3).astype("float64"),
        padding=1,
    ),
    "bytes that wrap": lambda: (
        (drawn(U, 20, 40) - drawn(U)).astype(F)
        @ td.dequantize(drawn(S, 40, 17), floats())
    ),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "a scale along the sum": lambda: (
        whole(drawn(U, 20, 40), drawn(U), floats(40))
        @ whole(drawn(S, 40, 17), drawn(S), floats())
    ),
    "an offset along the sum": lambda: (
        whole(drawn(U, 20, 40), drawn(U, 40), floats())
        @ whole(drawn(S, 40, 17), drawn(S), floats())
    ),
    "an offset of more than bytes": lambda: (
        ((drawn(U, 20, 40).astype(I32) - drawn("int16").astype(I32)).astype(F))
        @ whole(drawn(S, 40, 17), drawn(S), floats())
    ),
    "differences that wrap": lambda: (
        (drawn(U, 20, 40).astype("uint16") - drawn(U).astype("uint16")).astype(F)
        @ td.dequantize(drawn(S, 40, 17), floats())
    ),
    "channels apart": lambda: td.conv2d(
        whole(drawn(U, 1, 24, 9, 7), drawn(U), floats()),
        td.dequantize(drawn(S, 24, 1, 3, 3), floats()),
        groups=24,
    ),
    "scales of channels that are summed": lambda: td.conv2d(
        whole(drawn(U, 1, 8, 9, 7), drawn(U), floats(8, 1, 1)),
        td.dequantize(drawn(S, 24, 8, 3, 3), floats()),
    ),
    "few filters": lambda: td.conv2d(
        whole(drawn(U, 1, 8, 9, 7), drawn(U), floats()),
        td.dequantize(drawn(S, 4, 8, 3, 3), floats()),
    ),
    "one that is float": lambda: (
        floats(20, 40) @ td.dequantize(drawn(S, 40, 17), floats())
    ),
    "one row": lambda: (
        whole(drawn(U, 1, 40), drawn(U), floats())
        @ whole(drawn(S, 40, 17), drawn(S), floats())
    ),
    "too many terms": lambda: (
        whole(drawn(U, 8, 40_000), drawn(U), floats())
        @ whole(drawn(S, 40_000, 8), drawn(S), floats())
    ),
}


def made(name: str) -> Any:
    """An expression of the same numbers each time, whose values nobody has seen."""
    RNG.bit_generator.state = START
    return FORMS[name]()


def product_types(y: td.Tensor) -> list[set[str]]:
    """The types of the bytes that products read, after the rule."""
    plain = normal({0: y})
    (root,) = narrowed(plain, reach(plain.values()), by_bytes=True).values()
    return [
        {x.inputs[0].type.dtype.name for x in n.inputs if type(x.op) is Cast}
        for n in reach([root])
        if type(n.op) is Contract
    ]


@pytest.mark.parametrize("name", FORMS)
def test_a_product_of_dequantized_bytes_is_one_of_bytes(name: str) -> None:
    assert product_types(made(name)) == [{"uint8", "int8"}]
    with td.options(engine="reference"):
        want = made(name).numpy()
    with td.options(engine="native"):
        program = td.lower(made(name)).program
        by_bytes = "uint8, int8" in program or "int8, uint8" in program
        assert by_bytes == multiplies_bytes()
    for settings in ({}, {"check": True}, {"threads": 2}, {"arena": "guard"}):
        with td.options(engine="native", **settings):
            got = made(name).numpy()
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-4)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_such_product_stays(name: str) -> None:
    y = OTHERS[name]()
    assert all(kinds != {"uint8", "int8"} for kinds in product_types(y))


def test_scales_get_their_gradient() -> None:
    q, w = drawn(U, 20, 40), drawn(S, 40, 17)
    s, t = td.param(init=floats().numpy()), td.param(init=floats(17).numpy())
    loss = ((whole(q, drawn(U), s) @ td.dequantize(w, t)) ** 2).sum()
    gradients = []
    for engine in ("native", "reference"):
        with td.options(engine=engine):
            gradients.append([g.numpy() for g in td.grad(loss, [s, t])])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_values_between_products_are_stored_as_bytes() -> None:
    def layer(x: Any, w: Any) -> Any:
        q = td.clip(td.round(x / 0.05) + 128.0, 0.0, 255.0).astype(U)
        return whole(q, td.asarray(np.uint8(128)), 0.05) @ td.dequantize(w, floats())

    x = td.placeholder((20, 40), "float32")
    y = layer(td.relu(layer(x, drawn(S, 40, 32))), drawn(S, 32, 17))
    program = td.lower(y).program
    if multiplies_bytes():
        assert "uint8[20, 40] arena" in program and "uint8[20, 32] arena" in program
