"""Every op on arrays without elements: samples with an extent, or one axis, made 0.

The op's NumPy rule is what it means, also where engines need not ask it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

import treadle as td
from tests.cases import by_letter, each
from tests.numerics import assert_close
from tests.ops.samples import Sample
from tests.ops.test_contract import OPS, arrays_of, collected, results
from tests.ops.test_rows import NONE, choices
from treadle.base.dtypes import is_inexact
from treadle.base.errors import TreadleError
from treadle.base.types import TupleType
from treadle.graph.extents import EXTENTS
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import is_empty
from treadle.graph.op import Op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor

Arrays = list[np.ndarray[Any, Any]]
# What these print is not for here; no gradient is known of a function of the host.
TOLD = ("Debug", "DebugGradient", "Print", "Host", "HostEffect")


def _cut(array: Any, axes: Sequence[int]) -> Any:
    shape = [0 if k in axes else n for k, n in enumerate(array.shape)]
    return np.zeros(shape, array.dtype) if axes else array


def _filled(value: Any, old: int) -> Any:
    """An attribute with 0 in the places of an extent."""
    if isinstance(value, tuple):
        return tuple(_filled(part, old) for part in value)
    return 0 if type(value) is int and value == old else value


def variants(sample: Sample) -> list[tuple[Op, Arrays]]:
    """What an op accepts of a sample with extents of 0: each once."""
    found: dict[Any, tuple[Op, Arrays]] = {}
    for op, arrays in _cuts(sample):
        shapes = tuple(a.shape for a in arrays)
        if (op, shapes) not in found and _accepts(op, arrays):
            found[op, shapes] = op, arrays
    return list(found.values())


def _cuts(sample: Sample) -> Iterator[tuple[Op, Arrays]]:
    """A sample where all extents of one length are 0, and where one axis is."""
    op, arrays = sample.op, arrays_of(sample)
    named = [f.name for f in fields(op) if f.name in EXTENTS]  # type: ignore[arg-type]
    for old in sorted({n for a in arrays for n in a.shape if n}):
        cut = [_cut(a, [k for k, n in enumerate(a.shape) if n == old]) for a in arrays]
        yield op, cut
        own = {name: _filled(getattr(op, name), old) for name in named}
        if any(own[name] != getattr(op, name) for name in named):
            yield replace(op, **own), cut  # type: ignore[type-var]
    for k, a in enumerate(arrays):
        for axis in range(a.ndim):
            yield op, [*arrays[:k], _cut(a, [axis]), *arrays[k + 1 :]]


def _leaves(arrays: Arrays) -> list[Tensor]:
    return [constant_node(a) for a in arrays]


def _accepts(op: Op, arrays: Arrays) -> bool:
    """Whether an op takes such operands; it refuses them by a sentence alone."""
    try:
        op(*_leaves(arrays))
    except TreadleError:
        return False
    return True


def _with_gradients(op: Op, arrays: Arrays) -> list[Tensor]:
    """The results of an op, and what their sum derives to by its float operands."""
    xs = _leaves(arrays)
    ys = list(results(op(*xs)))
    floats = [x for x in xs if is_inexact(x.type.dtype) and x.type.dtype.kind != "c"]
    parts = [y for y in ys if is_inexact(y.type.dtype) and y.type.dtype.kind != "c"]
    if type(op).traits.differentiable and floats and parts:
        total = functions.astype(td.constant(0.0), "float64")
        for y in parts:
            total = total + functions.sum(functions.astype(y, "float64") * 1.5)
        ys += td.grad(total, floats, unused="zero")
    return ys


def _ran(ys: Sequence[Tensor]) -> list[Any] | str:
    """The values, or what is told where there are none."""
    try:
        found = td.evaluate(*ys)
    except TreadleError as error:
        assert "while running" not in str(error), "a message of NumPy's"
        return str(error).split("\n")[0]
    return list(found) if isinstance(found, tuple) else [found]


def _agree(op: Op, arrays: Arrays, got: list[Any] | str, want: list[Any] | str) -> None:
    if isinstance(want, str) or isinstance(got, str):
        assert got == want, f"{op} of {[a.shape for a in arrays]}"
        return
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, op.traits.tolerance, 64)


@each("name", by_letter([name for name in OPS if name not in TOLD]))
def test_an_op_of_no_elements_is_the_same_on_every_engine(name: str) -> None:
    right: list[tuple[Op, Arrays, list[Any]]] = []
    for sample in collected(OPS[name]):
        for op, arrays in variants(sample):
            with td.options(engine="reference"):
                alone = _ran(results(op(*_leaves(arrays))))
                want = _ran(_with_gradients(op, arrays))
            assert not is_empty(op, op(*_leaves(arrays)).type) or type(alone) is list
            if isinstance(want, str):
                _agree(op, arrays, _ran(_with_gradients(op, arrays)), want)
            else:
                right.append((op, arrays, want))
    with td.options(arena="guard"):
        _all_agree([_with_gradients(op, arrays) for op, arrays, _ in right], right)
    with td.options(arena="guard", optimize=False):
        _all_agree([results(op(*_leaves(arrays))) for op, arrays, _ in right], right)


def _all_agree(
    graphs: Sequence[Sequence[Tensor]], right: list[tuple[Op, Arrays, list[Any]]]
) -> None:
    """Run graphs as one; each has the first of what is right for it."""
    found = _ran([y for ys in graphs for y in ys])
    assert not isinstance(found, str), found
    for (op, arrays, want), ys in zip(right, graphs, strict=True):
        got, found = found[: len(ys)], found[len(ys) :]
        _agree(op, arrays, got, want[: len(ys)])


@each("name", by_letter([name for name in OPS if name not in TOLD]))
def test_a_rule_of_numpy_infers_the_type_of_no_elements(name: str) -> None:
    for sample in collected(OPS[name]):
        for op, arrays in variants(sample):
            type_ = op(*_leaves(arrays)).type
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # means of nothing
                    value = op.numpy(*arrays)
            except (ValueError, IndexError, TreadleError):
                continue  # the test of engines looks at what they tell
            several = isinstance(type_, TupleType)
            types = type_ if isinstance(type_, TupleType) else (type_,)
            for v, t in zip(value if several else (value,), types, strict=True):
                assert np.shape(v) == t.shape


@each("name", by_letter([name for name in OPS if name not in NONE]))
def test_no_rows_of_an_op_are_a_result_without_rows(name: str) -> None:
    rows: list[Tensor] = []
    for sample in collected(OPS[name]):
        arrays = arrays_of(sample)
        for given in choices(sample):
            stacked = [
                np.zeros((0, *a.shape), a.dtype) if g else a
                for a, g in zip(arrays, given, strict=True)
            ]
            one, made = (
                sample.op(*_leaves(arrays)),
                sample.op.rows(given, *_leaves(stacked)),
            )
            assert made is not None
            for y, own in zip(results(made), results(one), strict=True):
                assert y.type.shape == (0, *own.type.shape)
                rows.append(y)
    for y, value in zip(rows, td.evaluate(rows), strict=True):
        assert value.shape == y.type.shape
