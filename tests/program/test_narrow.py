"""Products that read operands of 8 and 16 bits where they lie, without a float copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import assert_close

RNG = np.random.default_rng(5)
KINDS = ("float16", "bfloat16", "int8")
Make = Callable[[td.Tensor, td.Tensor], td.Tensor]
WAYS: dict[str, Make] = {  # w is [40, 24]
    "rows": lambda x, w: x[:, :24] @ w.mT,
    "columns": lambda x, w: x @ w,
    "a part": lambda x, w: x[:, :30] @ w[5:35, 3:20],
    "every second": lambda x, w: x[:, :20] @ w[::2],
    "from the left": lambda x, w: w @ x[:, :24].mT,
    "a column": lambda x, w: w @ x[0, :24],
    "in heads": lambda x, w: td.einsum(
        "bk,hkn->bhn", x[:, :24], td.permute_dims(w.reshape((2, 20, 24)), (0, 2, 1))
    ),
    "finished": lambda x, w: td.relu(x @ w + 1.0) * 2.0,
    "read by others": lambda x, w: (x @ w).sum(0) + w.sum(0),
}


def weight(kind: str, *shape: int) -> Any:
    return td.asarray(RNG.standard_normal(shape) * 20).astype(kind).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_bits_are_those_of_a_float_copy(rows: int, name: str, kind: str) -> None:
    x = RNG.standard_normal((rows, 40)).astype(np.float32)
    w = weight(kind, 40, 24)

    def done(own: Any, **options: Any) -> Any:
        with td.options(engine="native", **options):
            given = td.asarray(own)
            return WAYS[name](td.asarray(x), given.astype("float32")).numpy()

    want = done(w.astype(np.float32))
    for threads in (1, 2, 4):
        np.testing.assert_array_equal(done(w, threads=threads), want)
    for arena in ("poison", "guard"):
        np.testing.assert_array_equal(done(w, arena=arena), want)
    np.testing.assert_allclose(done(w, optimize=False), want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rows", "columns", "from the left", "finished"])
def test_there_is_no_float_copy(name: str, kind: str) -> None:
    x = td.placeholder((3, 40), "float32")
    w = td.asarray(weight(kind, 40, 24))
    program = td.lower(WAYS[name](x, w.astype("float32"))).program
    assert f"of {kind}" in program
    assert "float32[40, 24]" not in program and "float32[24, 40]" not in program


@pytest.mark.parametrize("kind", KINDS)
def test_a_convolution_has_a_copy(kind: str) -> None:
    x = RNG.standard_normal((2, 3, 9, 9)).astype(np.float32)
    w = weight(kind, 8, 3, 3, 3)
    want = td.conv2d(x, w.astype(np.float32)).numpy()
    got = td.conv2d(x, td.asarray(w).astype("float32"))
    with td.options(engine="native"):
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("spec", ["ij,kj->ik", "bij,bjk->bik", "ij,jk->ki", "i,i->"])
def test_products_of_16_bits_are_rounded_once(spec: str, kind: str) -> None:
    sizes = dict(zip("bijk", (2, 5, 300, 17), strict=True))
    a, b = (
        (RNG.standard_normal([sizes[c] for c in part]) / 8).astype(np.float32)
        for part in spec.split("->")[0].split(",")
    )
    x, y = td.asarray(a).astype(kind), td.asarray(b).astype(kind)
    with td.options(engine="native"):
        z = td.einsum(spec, x, y)
        assert td.lower(z).fallbacks == () and z.dtype.name == kind
        wide = np.einsum(spec, x.numpy().astype("d"), y.numpy().astype("d"))
        assert_close(z.numpy(), wide.astype(z.dtype), "R", 8)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_gradients_of_16_bits_are_compiled(kind: str) -> None:
    x = td.asarray(weight("float32", 9, 40) / 64).astype(kind)
    w = td.param(init=weight(kind, 24, 40) / 64, dtype=kind)
    with td.options(engine="native"):
        (g,) = td.grad((td.tanh(x @ w.mT) * 2.0).sum(), [w])
        assert td.lower(g).fallbacks == ()
        found = g.numpy().astype(np.float32)
    with td.options(engine="reference"):
        (g,) = td.grad((td.tanh(x @ w.mT) * 2.0).sum(), [w])
        want = g.numpy().astype(np.float32)
    np.testing.assert_allclose(found, want, rtol=0.05, atol=0.1)


def test_int8_linear_needs_no_memory_for_its_weight() -> None:
    q, scale = td.quantize(RNG.standard_normal((1500, 1000)).astype(np.float32))
    x = RNG.standard_normal((4, 1000)).astype(np.float32)
    y = td.int8_linear(td.asarray(x), td.asarray(q.numpy()), scale.numpy()[:, 0])
    with td.options(engine="native"):
        assert "cast" not in td.lower(y).program
        want = x @ (q.numpy() * scale.numpy()).T
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-4, atol=1e-3)


@pytest.fixture(scope="module", params=["", "x86-64-v3", "generic"])
def cpu(request: Any) -> Iterator[str]:
    """A processor that code is made for, and no program of another one's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREADLE_CPU", request.param)
        td.clear_cache()
        yield request.param
    td.clear_cache()


SHAPES = [((rows, 40), (40, 24)) for rows in (1, 5, 70)]


def _drawn(kind: str, *shape: int) -> Any:
    """Integers of the whole range of a type, of 16 bits at most."""
    ends = np.iinfo(kind if kind != "int32" else "int16")
    return RNG.integers(ends.min, ends.max + 1, shape).astype(kind)


WHOLE: dict[str, Make] = {  # of a [m, 24] or [m, 40], and w [40, 24]
    "rows": lambda a, w: a[:, :24] @ w.mT,
    "columns": lambda a, w: a @ w,
    "an odd sum": lambda a, w: a[:, :23] @ w[:, :23].mT,
    "every second": lambda a, w: a @ w[:, ::2],
    "a part": lambda a, w: a[:, 4:24] @ w[3:9, 4:].mT,
    "from the left": lambda a, w: w @ a[:, :24].mT,
    "in heads": lambda a, w: td.einsum("bk,hnk->bhn", a[:, :24], w.reshape(2, 20, 24)),
    "finished": lambda a, w: td.relu((a[:, :24] @ w.mT).astype("float32") * 0.5 - 3.0),
    "a long sum": lambda a, w: td.tile(a, (1, 60)) @ td.tile(w, (1, 100)).mT,
}


@pytest.mark.parametrize(
    "kinds", ["uint8 int8", "int8 uint8", "int8 int8", "int32 int8"]
)
@pytest.mark.parametrize("name", WHOLE)
def test_products_of_whole_numbers_are_exact_and_native(
    name: str, kinds: str, cpu: str
) -> None:
    pairs = [
        [_drawn(k, *s) for k, s in zip(kinds.split(), both, strict=True)]
        for both in SHAPES
    ]

    def products(dtype: str) -> list[Any]:
        """Of all numbers of rows, in one program."""
        wide = [[td.asarray(x).astype(dtype) for x in pair] for pair in pairs]
        return td.evaluate([WHOLE[name](a, w) for a, w in wide])

    with td.options(engine="reference"):
        want = products("int32")
    for settings in ({}, {"threads": 2}, {"arena": "guard"}):
        with td.options(engine="native", **settings):
            for x, y in zip(products("int32"), want, strict=True):
                np.testing.assert_array_equal(x, y)
            assert not td.latest_program().fallbacks


@pytest.mark.parametrize("name", WHOLE)
def test_products_of_two_bfloat16_are_sums_in_float32(name: str, cpu: str) -> None:
    pairs = [[weight("bfloat16", *shape) for shape in both] for both in SHAPES]

    def products(change: Any) -> list[Any]:
        """Of all numbers of rows, in one program."""
        wide = [[change(td.asarray(x)) for x in pair] for pair in pairs]
        return td.evaluate([WHOLE[name](a, w) for a, w in wide])

    with td.options(engine="reference"):
        wants, sizes = products(lambda x: x.astype("float64")), products(td.abs)
    results = []
    for settings in ({}, {"threads": 2}, {"arena": "guard"}):
        with td.options(engine="native", **settings):
            results.append(products(lambda x: x.astype("float32")))
            assert not td.latest_program().fallbacks
    for k, (want, size) in enumerate(zip(wants, sizes, strict=True)):
        size = size.astype("float64") + 3.0
        assert (abs(results[0][k] - want) <= 1e-6 * size).all()
        for result in results[1:]:
            np.testing.assert_array_equal(result[k], results[0][k])


def test_bytes_are_multiplied_by_fours_where_the_processor_can() -> None:
    a, w = td.placeholder((3, 40), "uint8"), td.placeholder((5, 40), "int8")
    y = td.matmul(a.astype("int32"), w.astype("int32").mT)
    (product,) = [
        line for line in td.lower(y).program.splitlines() if "product" in line
    ]
    assert "uint8" in product and "int8" in product
