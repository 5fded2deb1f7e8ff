"""The node: notes, limits, manners."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import treadle as td
from treadle.graph import serials
from treadle.graph.operators import functions


def test_a_loop_that_never_runs_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serials, "PENDING_LIMIT", 1000)
    float(td.constant(1.0) + 1.0)
    z = x = td.constant(1.0)
    with pytest.warns(ResourceWarning, match="test_tensor.py"):
        for _ in range(2 * serials.LOOK):  # machine code looks as seldom
            z = z + x


def test_names_are_unique_and_settable() -> None:
    a, b = td.constant(1.0) + 1.0, td.constant(1.0) + 1.0
    assert a.name != b.name
    a.name = "total"
    assert a.name == "total"


def test_nodes_are_immutable_so_copies_are_themselves() -> None:
    x = td.constant(1.0) + 1.0
    assert copy.copy(x) is x and copy.deepcopy(x) is x


def test_a_list_of_tensors_names_stack() -> None:
    with pytest.raises(td.DTypeError, match=r"td\.stack"):
        td.asarray([td.constant(1.0), td.constant(2.0)])


def test_scalars_are_weak() -> None:
    half = td.asarray([1.0, 2.0], "float16")
    assert (half * 2.0).dtype == td.float16
    assert (td.asarray([1, 2]) * 2.0).dtype == td.float32
    assert (td.asarray([True]) + 1).dtype == td.int64
    assert (td.asarray([1], "int8") + 1).dtype == td.int8


def test_a_dtype_is_one_object_wherever_it_comes_from() -> None:
    swapped = np.dtype("f4").newbyteorder(">").newbyteorder("=")
    array = np.ones(2, swapped)
    variables = [td.param(init=0.5), td.nn.Linear(2, 2).weight, td.Variable(array)]
    nodes = [td.constant(0.5), td.asarray(array, copy=False), td.constant([1], "f4")]
    assert all(x.type.dtype is td.float32 for x in [*variables, *nodes])


@pytest.mark.parametrize("kind", ["O", "U3", ">f4"])
def test_a_dtype_that_an_array_has_is_looked_at_as_others(kind: str) -> None:
    array = np.zeros(2, kind)
    if kind == ">f4":
        assert td.asarray(array, array.dtype).numpy().dtype is td.float32
        return
    with pytest.raises(td.DTypeError, match="not an element type"):
        td.asarray(array, array.dtype)


def test_a_copy_of_an_array_begins_on_a_line_of_the_cache() -> None:
    for dtype in (np.float32, np.float64, np.int16):
        given = np.arange(6001, dtype=dtype)[1:].reshape(3, 2000).T
        made = td.asarray(given)
        stored = made.numpy()
        assert stored.ctypes.data % 64 == 0 and stored.flags.c_contiguous
        assert np.array_equal(stored, given) and not np.shares_memory(stored, given)
        assert td.asarray(given, dtype=td.float32).numpy().dtype == np.float32


def test_a_function_that_no_layer_provides_is_an_attribute_that_is_not_there() -> None:
    assert not hasattr(functions, "nothing")
    with pytest.raises(AttributeError, match="no layer has provided the function"):
        functions.nothing()
