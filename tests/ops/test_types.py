"""Every op in every float type, and with named axes: carried, dropped or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.numerics import unit
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES, arrays_of
from treadle.base.dtypes import bfloat16, float16, float64, is_inexact
from treadle.base.errors import TreadleError
from treadle.base.types import TupleType, Type
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.graph.op import Input

# Ops whose results jump: a rounded input may fall on the other side.
JUMPS = {
    "ArgMax", "ArgMin", "ArgSort", "Ceil", "CumulativeMax", "Equal", "Floor",
    "FloorDivide", "Fmod", "Greater", "GreaterEqual", "Less", "LessEqual",
    "MaxPoolPositions", "NotEqual", "Remainder", "Round", "Sign", "TopK", "Trunc",
}  # fmt: skip


def recast(sample: Sample, dtype: Any) -> list[Any] | None:
    """The sample's arrays with float32 drawn anew in a dtype; None if there is none."""
    drawn = [x for x in sample.inputs if isinstance(x, Input)]
    if not any(x.dtype == np.float32 for x in drawn):
        return None
    arrays = arrays_of(sample)
    return [a.astype(dtype) if a.dtype == np.float32 else a for a in arrays]


def is_real_float(a: Any) -> bool:
    return is_inexact(a.dtype) and a.dtype.kind != "c"


TYPED = [
    pytest.param(case.values[0], dtype, id=f"{case.id}-{dtype.name}")
    for case in CASES
    for dtype in (float16, bfloat16, float64)
]


@each("sample, dtype", TYPED)
def test_every_float_type(sample: Sample, dtype: Any) -> None:
    arrays = recast(sample, dtype)
    names = {k for k, _ in sample.op.attributes()}
    if arrays is None or "dtype" in names or "body" in names:
        pytest.skip("the op names its type")
    y = sample.op(*[constant_node(a) for a in arrays])
    got = compute(sample.op, y.type, arrays)
    # The same inputs in float64 tell what the value should be.
    wide = [a.astype(float64) if is_real_float(a) else a for a in arrays]
    y64 = sample.op(*[constant_node(a) for a in wide])
    want = compute(sample.op, y64.type, wide)
    several = isinstance(y.type, TupleType)
    triples = zip(got, want, y.type, strict=True) if several else [(got, want, y.type)]
    for g, w, t in triples:
        assert g.dtype == t.dtype and g.shape == t.shape
        if type(sample.op).__name__ in JUMPS or not is_inexact(t.dtype):
            continue
        largest = [np.max(np.abs(a), initial=1.0) for a in wide if is_real_float(a)]
        scale = np.maximum(np.abs(w), max(map(float, largest)))
        bound = 64 * max(a.size for a in arrays) ** 0.5 * unit(dtype) * scale
        finite = np.isfinite(w) & np.isfinite(g.astype(np.complex128))
        error = np.abs(g.astype(np.complex128) - w)
        assert np.all((error <= bound) | ~finite), f"{g} is not near {w}"


@each("sample", CASES)
def test_named_axes_are_carried_dropped_or_refused(sample: Sample) -> None:
    letters = "uvwxyz"
    nodes = []
    for a in arrays_of(sample):
        node = constant_node(a)
        if a.ndim:
            node = constant_node(a, tuple(letters[-a.ndim :]))
        nodes.append(node)
    try:
        y = sample.op(*nodes)
    except TreadleError as error:
        assert len(str(error)) > 20
        return
    types = y.type if isinstance(y.type, TupleType) else (y.type,)
    for t in types:
        assert isinstance(t, Type)
        if t.axes is None:
            continue
        known = [name for name in t.axes if name is not None]
        assert len(t.axes) == len(t.shape) and len(set(known)) == len(known)
        for name, n in zip(t.axes, t.shape, strict=True):
            lengths = {
                x.type.shape[x.type.axes.index(name)]
                for x in nodes
                if name and x.type.axes and name in x.type.axes
            }
            assert name is None or n in lengths or 1 in lengths or lengths


HUGE = 10**30


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(
    "call",
    [
        lambda: td.pad([1.0, 2.0], HUGE),
        lambda: td.one_hot([1], HUGE),
        lambda: td.fft.fft([1.0, 2.0], n=HUGE),
        lambda: td.fft.irfft([1.0, 2.0], n=HUGE),
        lambda: td.conv1d(td.ones((1, 1, 3)), td.ones((1, 1, 2)), stride=HUGE),
        lambda: td.conv1d(td.ones((1, 1, 3)), td.ones((1, 1, 2)), padding=HUGE),
        lambda: td.max_pool1d(td.ones((1, 1, 3)), 2, HUGE),
        lambda: td.tile([1.0, 2.0], (HUGE,)),
        lambda: td.unfold(td.ones((1, 1, 3, 3)), 2, stride=HUGE),
    ],
)
def test_an_extent_of_more_than_64_bits_is_refused(call: Any, engine: str) -> None:
    with td.options(engine=engine), pytest.raises(td.TreadleError) as error:
        call().numpy()
    assert "at: " in str(error.value)


MOVED = {
    "diag": lambda x: td.diag(x[0]),
    "pad": lambda x: td.pad(x, 1),
    "pad of layers": lambda x: td.nn.functional.pad(x, (0, 2)),
    "roll": lambda x: td.roll(x, 1),
    "shift": lambda x: td.shift(x, 1),
    "take": lambda x: td.take(x, td.asarray([1, 1]), axis=0),
    "tile": lambda x: td.tile(x, (2, 1)),
    "tril": td.tril,
    "triu": td.triu,
}


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "complex64"])
@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_keeps_their_type(name: str, dtype: str) -> None:
    """Also where zeros come in: a mask stays one."""
    x = np.array([[1, 0], [1, 1]]).astype(dtype)
    y, wide = MOVED[name](td.asarray(x)), MOVED[name](td.asarray(x.astype("int64")))
    assert y.dtype == dtype and y.tolist() == wide.astype(dtype).tolist()


@pytest.mark.parametrize("scalar", [np.str_("3"), np.datetime64("2020"), np.void(b"a")])
def test_a_numpy_scalar_that_is_no_number_is_refused(scalar: Any) -> None:
    for call in (lambda: td.ones(2) * scalar, lambda: td.add(scalar, 1.0)):
        with pytest.raises(td.DTypeError, match="is no number"):
            call()


@pytest.mark.parametrize("make", [td.Variable, lambda x: td.param("p", init=x)])
@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">c8"])
def test_first_values_in_the_other_order_of_bytes(make: Any, dtype: str) -> None:
    v = make(np.arange(3).astype(dtype))
    assert v.dtype == np.dtype(dtype).newbyteorder("=") and v.tolist() == [0, 1, 2]
