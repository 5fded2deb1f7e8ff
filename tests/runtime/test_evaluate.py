"""Values on demand: what runs, what is kept, what is let go."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import treadle as td


def test_reading_is_looking() -> None:
    x = td.param("x", init=2.0)
    y = x * 3.0
    repr(y)
    assert y.stored is None
    assert float(y) == 6.0 and "6" in repr(y)


def test_values_are_read_only() -> None:
    y = td.ones(3) + 1.0
    with pytest.raises(ValueError, match="read-only"):
        y.numpy()[0] = 5.0


def test_a_node_that_is_held_keeps_its_value() -> None:
    x = td.param("x", init=2.0)
    inner = x * 3.0
    outer = inner + 1.0
    float(outer)
    assert inner.stored is not None
    hidden = ((x * 3.0) + 1.0) * 2.0
    float(hidden)
    assert hidden.inputs[0].stored is None
    either = x * 3.0 + x * 5.0
    float(either)
    assert all(y.stored is None for y in either.inputs)


def test_derivatives_after_printing() -> None:
    x = td.param("x", init=2.0)
    y = x * x
    float(y)
    assert float(td.grad(y, [x])[0]) == 4.0


def test_numpy_arrays_on_either_side() -> None:
    a = np.arange(3.0)
    x = td.ones(3, "float64")
    for y in (a + x, x + a, a * x, x @ a, a @ x):
        assert isinstance(y, td.Tensor)
    assert (np.float64(2.0) * td.ones(2)).dtype == td.float32


def test_eager_evaluates_at_construction() -> None:
    with td.options(eager=True):
        y = td.ones(2) + 1.0
        assert y.stored is not None
    assert (td.ones(2) + 1.0).stored is None


def test_options_are_checked() -> None:
    with (
        pytest.raises(td.OptionError, match="no option 'nonsense'"),
        td.options(nonsense=1),
    ):
        pass
    with (
        pytest.raises(td.OptionError, match="engine 'warp'"),
        td.options(engine="warp"),
    ):
        pass


def test_the_default_type_is_an_option() -> None:
    with td.options(dtype="float64"):
        assert td.asarray(1.0).dtype == td.float64


def test_a_chain_of_60_000_nodes() -> None:
    """A recursion of C would need more than its stack, one of Python far more."""
    x, half = td.param("x", init=1.0), td.constant(0.5)
    z = x.node()
    for _ in range(30_000):
        z = z * half + x
    (g,) = td.grad(z, [x])
    assert float(z) == 2.0 and float(g) == 2.0
    del z, g
    gc.collect()


def test_a_loop_that_keeps_the_last_loss_holds_its_memory_flat() -> None:
    w = td.param("w", shape=(32,), init=1.0)
    optimizer = td.optim.SGD(lr=1e-4)
    counts = []
    loss = None
    for step in range(600):
        loss = optimizer.step((w * w).sum())
        f"{loss:.3f}"
        if step in (200, 599):
            gc.collect()
            counts.append(sum(isinstance(o, td.Tensor) for o in gc.get_objects()))
    assert counts[1] <= counts[0] + 10


def test_an_unbound_placeholder_is_named() -> None:
    x = td.placeholder((2,), name="input")
    with pytest.raises(td.UnboundError, match="'input' has no value"):
        (x + 1.0).numpy()


def test_errors_name_op_operands_and_line() -> None:
    with pytest.raises(td.ShapeError) as caught:
        td.ones((2, 3)) + td.ones(4)
    text = str(caught.value)
    for part in ("Add", "float32[2, 3], float32[4]", "test_evaluate.py", "hint"):
        assert part in text
