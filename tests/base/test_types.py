"""Shapes, dtypes, names and trees."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.base import dtypes, trees, types
from treadle.base.errors import AxisError, DTypeError, ShapeError
from treadle.base.types import (
    Axis,
    Type,
    as_names,
    as_shape,
    broadcast_shapes,
    normalize_axes,
)

SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(SHAPES, SHAPES)
def test_broadcasting_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast_shapes(a, b)
    else:
        assert broadcast_shapes(a, b) == want


@given(st.sampled_from(dtypes.ALL), st.sampled_from(dtypes.ALL))
def test_promotion_is_symmetric_and_keeps_the_higher_kind(a, b) -> None:  # type: ignore[no-untyped-def]
    both = dtypes.promote(a, b)
    assert both == dtypes.promote(b, a)
    assert dtypes.promote(both, a) == both
    rank = ["bool", "integer", "float", "complex"]
    wanted = max(rank.index(dtypes.kind(a)), rank.index(dtypes.kind(b)))
    assert rank.index(dtypes.kind(both)) == wanted


def test_dtypes_are_known_by_many_names() -> None:
    assert dtypes.as_dtype(np.float32) == dtypes.as_dtype("float32") == dtypes.float32
    assert dtypes.as_dtype(">f4") == dtypes.float32
    with pytest.raises(DTypeError, match="not an element type"):
        dtypes.as_dtype("string")


def test_axes_are_found_by_position_name_or_axis() -> None:
    t = Type((2, 3), dtypes.float32, ("n", "c"))
    assert normalize_axes(("c", 0), t) == (1, 0)
    assert normalize_axes(Axis("c", 3), t) == (1,)
    for wrong, says in (
        (2, "out of range"),
        ("h", "no axis is named"),
        (Axis("c", 4), "has length 3"),
        ((0, "n"), "twice"),
        (1.5, "integer or a name"),
    ):
        with pytest.raises(AxisError, match=says):
            normalize_axes(wrong, t)


def test_names_are_checked_against_the_shape() -> None:
    assert as_names(["a", None], (2, 3)) == ("a", None)
    with pytest.raises(AxisError, match="repeat"):
        as_names(["a", "a"], (2, 3))
    with pytest.raises(AxisError, match="length 4"):
        as_names([Axis("a", 4), "b"], (2, 3))
    with pytest.raises(AxisError, match="1 axes given"):
        as_names(["a"], (2, 3))


def test_shapes_hold_extents() -> None:
    with pytest.raises(ShapeError, match="negative"):
        as_shape((2, -1))
    with pytest.raises(ShapeError, match="integers"):
        as_shape((2, 1.5))


def test_equal_types_are_one_object() -> None:
    one = Type((2, 71), dtypes.float32)
    swapped = np.dtype("<f4").newbyteorder("S").newbyteorder("S")
    same = [Type((np.int64(2), 71), swapped, None), Type((2, 71), dtypes.float32)]
    same += [copy.deepcopy(one), pickle.loads(pickle.dumps(one)), copy.copy(one)]
    assert all(t is one for t in same) and len({one, *same}) == 1
    assert one.dtype is dtypes.float32 and type(one.shape[0]) is int
    assert one != Type((2, 71), dtypes.float64) and one != Type((71, 2), dtypes.float32)
    assert one != Type((2, 71), dtypes.float32, ("a", None))


def test_a_type_nobody_has_is_forgotten() -> None:
    types._forget()
    before = len(types._types)
    kept = [Type((n, 7, 91), dtypes.float32) for n in range(50)]
    assert len(types._types) == before + 50
    del kept
    types._forget()  # as where the next one is made
    assert len(types._types) == before


def test_threads_make_one_type_of_equal_ones() -> None:
    def made(_: int) -> list[Type]:
        return [Type((n, 5, 97), dtypes.float32) for n in range(200)]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(made, range(8))
    assert all(a is b for other in others for a, b in zip(first, other, strict=True))


TREES = st.recursive(
    st.integers(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.none(),
    ),
)


@given(TREES)
def test_trees_are_put_together_again(tree: object) -> None:
    leaves, structure = trees.flatten(tree)
    assert trees.unflatten(structure, leaves) == tree
    hash(structure)
