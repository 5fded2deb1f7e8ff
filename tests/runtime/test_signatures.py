"""`@td.function`: a call finds its trace again exactly while nothing it saw changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from treadle.runtime import function as function_module

SPACE = """
import treadle as td

def helper(x):
    return x * FACTOR

inner = td.function(helper)

@td.function
def named(x):
    return x * FACTOR

@td.function
def helped(x):
    return helper(x)

@td.function
def nested(x):
    return inner(x)

@td.function
def listed(x):
    return sum([x * k for k in LIST])

@td.function
def mapped(x):
    y = x
    for name, k in MAP.items():
        y = y * k + len(name)
    return y

@td.function
def lookedup(x):
    return x * TABLE[3]

@td.function
def owned(x):
    return x * THING.factor

@td.function
def optional(x):
    return x * getattr(THING, "extra", 1.0)

@td.function
def built(x):
    return x * max(1, 2)

@td.function
def varied(x):
    return x * V
"""


class Space:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__ = attributes


def space() -> Any:
    """A module of functions, with the globals they name."""
    found: dict[str, Any] = {
        "__name__": "user",
        "FACTOR": 2.0,
        "LIST": [1, 2],
        "MAP": {"a": 2, "bb": 3},
        "TABLE": {k: float(k) for k in range(20)},
        "THING": Space(factor=2.0, other=0),
        "V": td.param("v", init=2.0),
    }
    exec(SPACE, found)
    module = Space()
    module.__dict__ = found
    return module


def reordered(x: dict[str, Any]) -> None:
    first = next(iter(x))
    x[first] = x.pop(first)


CHANGES: dict[str, tuple[str, Callable[[Any], Any], float, float]] = {
    "a global": ("named", lambda m: setattr(m, "FACTOR", 5.0), 6, 15),
    "a global of a helper": ("helped", lambda m: setattr(m, "FACTOR", 5.0), 6, 15),
    "a global of a function": ("nested", lambda m: setattr(m, "FACTOR", 5.0), 6, 15),
    "the helper": ("helped", lambda m: setattr(m, "helper", lambda x: -x), 6, -3),
    "the code of the helper": (
        "helped",
        lambda m: setattr(m.helper, "__code__", (lambda x: -x).__code__),
        6,
        -3,
    ),
    "an element of a list": ("listed", lambda m: m.LIST.__setitem__(0, 4), 9, 18),
    "one more element": ("listed", lambda m: m.LIST.append(3), 9, 18),
    "one element less": ("listed", lambda m: m.LIST.pop(), 9, 3),
    "a value of a dict": ("mapped", lambda m: m.MAP.update(a=3), 23, 32),
    "a key of a dict": ("mapped", lambda m: m.MAP.update(c=1), 23, 24),
    "the order of a dict": ("mapped", lambda m: reordered(m.MAP), 23, 23),
    "a value of a long dict": ("lookedup", lambda m: m.TABLE.update({3: 4.0}), 9, 12),
    "an attribute": ("owned", lambda m: setattr(m.THING, "factor", 5.0), 6, 15),
    "all attributes": (
        "owned",
        lambda m: setattr(m.THING, "__dict__", {"factor": 5.0}),
        6,
        15,
    ),
    "the object": (
        "owned",
        lambda m: setattr(m, "THING", Space(factor=5.0)),
        6,
        15,
    ),
    "a name that hides a builtin": (
        "built",
        lambda m: setattr(m, "max", lambda *x: 5),
        6,
        15,
    ),
    "the Variable": ("varied", lambda m: setattr(m, "V", td.param(init=5.0)), 6, 15),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_what_was_seen_traces_anew(what: str) -> None:
    name, change, before, after = CHANGES[what]
    module = space()
    f, x = getattr(module, name), td.constant(3.0)
    for _ in range(3):
        assert float(f(x)) == before
    assert f.count == 1
    change(module)
    for _ in range(3):
        assert float(f(x)) == after
    assert f.count == 2


def test_what_was_not_seen_may_change() -> None:
    module = space()
    for k in range(3):
        module.THING.other, module.unrelated = k, k
        setattr(module.THING, f"more{k}", k)
        assert float(module.owned(td.constant(3.0))) == 6.0
    assert module.owned.count == 1


def test_a_global_that_is_gone_is_a_name_error() -> None:
    module = space()
    assert float(module.named(td.constant(3.0))) == 6.0
    del module.FACTOR
    with pytest.raises(NameError, match="FACTOR"):
        module.named(td.constant(3.0))
    module.FACTOR = 2.0
    assert float(module.named(td.constant(3.0))) == 6.0 and module.named.count == 2


def test_a_closure_cell_that_is_rebound_traces_anew() -> None:
    factor: Any = 2.0

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * factor

    x = td.constant(3.0)
    assert [float(f(x)), float(f(x))] == [6.0, 6.0]
    factor = td.param("factor", init=5.0)
    assert [float(f(x)), float(f(x))] == [15.0, 15.0] and f.count == 2


def test_what_a_plan_has_seen_is_looked_at_in_each_call() -> None:
    module, factor, x = space(), 2.0, td.constant(3.0)
    linear = td.nn.Linear(1, 1, bias=False)
    linear.load_state_dict({"weight": [[1.0]]})

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        y = x * factor + linear(x.reshape((1,))).sum()
        return y if linear.training else -y

    def total() -> list[float]:
        # The first call makes the plan that the others follow.
        return [float(g(x)) for g in (f, module.named) for _ in range(3)]

    assert total() == [9.0] * 3 + [6.0] * 3
    for change, want in (
        (lambda: setattr(module, "FACTOR", 4.0), [9.0, 12.0]),
        (lambda: linear.eval(), [-9.0, 12.0]),
        (lambda: linear.train(), [9.0, 12.0]),
    ):
        change()
        assert total() == [want[0]] * 3 + [want[1]] * 3
    factor = 5.0
    assert total() == [18.0] * 3 + [12.0] * 3
    f.f.__code__ = f.f.__code__.replace(co_name="other")
    count = f.count
    assert total() == [18.0] * 3 + [12.0] * 3 and f.count == count + 1
    w = td.param("w", init=1.0)
    scaled = td.function(lambda x: x * w)
    kept, free = [scaled(x) for _ in range(3)], []
    with td.no_grad():
        free = [scaled(x) for _ in range(3)]
    assert [float(td.grad(y, [w])[0]) for y in (*kept, scaled(x))] == [3.0] * 4
    for y in free:
        with pytest.raises(td.GradientError):
            td.grad(y, [w])
    with td.options(dtype="float64"):
        made = td.function(lambda: td.zeros(2) + 1.0)
        assert [made().dtype.name for _ in range(3)] == ["float64"] * 3
    assert [made().dtype.name for _ in range(3)] == ["float32"] * 3


def test_modes_flags_and_options_are_part_of_the_signature() -> None:
    class Cell(td.nn.Module):
        def __init__(self) -> None:
            self.linear = td.nn.Linear(2, 2)

        @td.function
        def apply(self, x: td.Tensor) -> td.Tensor:
            return self.linear(x) * (1.0 if self.training else 0.0)

    cell, x = Cell(), td.ones(2) * 1.0

    def total() -> float:
        return float(abs(cell.apply(x)).sum())

    trained = total()
    assert trained == total() != 0.0 and Cell.apply.count == 1
    assert cell.eval() and total() == total() == 0.0 and Cell.apply.count == 2
    assert cell.train() and total() == trained and Cell.apply.count == 2
    cell.linear.weight.trainable = False
    assert total() == total() == trained and Cell.apply.count == 3
    with td.options(dtype="float64"):
        assert total() == total() and Cell.apply.count == 4
    with td.no_grad():
        y = cell.apply(x).sum()
        assert cell.apply(x).mark and Cell.apply.count == 5
    assert (
        float(td.grad(y + (cell.apply(x) * x).sum(), [cell.linear.bias])[0][0]) == 1.0
    )
    cell.linear = td.nn.Linear(2, 2)
    assert total() != trained and Cell.apply.count == 6
    other = Cell()
    assert other.apply(x).shape == (2,) and Cell.apply.count == 7


def test_variables_arrays_floats_and_tensors_as_arguments() -> None:
    @td.function
    def f(x: Any) -> td.Tensor:
        return x * 2.0

    v = td.param("v", init=3.0)
    for variables in range(2):
        for x in (td.constant(3.0), 3.0, np.float32(3.0), np.array(3.0, np.float32)):
            assert float(f(x)) == 6.0
        assert f.count == 1 + variables
        assert float(f(v)) == 6.0 and float(td.grad(f(v), [v])[0]) == 2.0
        assert f.count == 2
    v.assign(4.0)
    assert float(f(v)) == 8.0 and f.count == 2
    v.trainable = False
    assert float(f(v)) == 8.0 and f.count == 3
    assert float(f(td.param(init=5.0))) == 10.0 and f.count == 4


def test_containers_are_looked_into_at_each_call() -> None:
    @td.function
    def total(xs: list[td.Tensor], scale: int = 1) -> td.Tensor:
        return sum(xs) * scale

    xs = [td.constant(1.0)]
    assert float(total(xs)) == float(total(xs)) == 1.0
    xs.append(td.constant(2.0))
    assert float(total(xs)) == float(total(xs)) == 3.0 and total.count == 2
    xs[0] = td.constant(5.0)
    assert float(total(xs)) == 7.0 and total.count == 2
    for scale in (1000, 1000 * 1, int("1000")):
        assert float(total(xs, scale=scale)) == 7000.0
    assert total.count == 3


def test_a_known_call_looks_at_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    w = td.param("w", init=2.0)

    class Model:
        factor = 1.0

        @td.function
        def apply(self, x: td.Tensor, y: td.Tensor) -> tuple[td.Tensor, td.Tensor]:
            return x * w, y + w

    model, x = Model(), td.ones(3) * 1.0

    @td.function
    def paired(pair: tuple[td.Tensor, td.Tensor]) -> td.Tensor:
        return pair[0] * pair[1]

    for _ in range(2):
        paired(model.apply(x, x))
        monkeypatch.setattr(function_module, "FunctionGuard", None)
    assert paired(model.apply(x, x * 2.0)).tolist() == [8.0, 8.0, 8.0]


def test_signatures_without_end_are_forgotten() -> None:
    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * 2.0

    for n in range(3 * function_module.TRACES):
        assert f(td.ones(n % 100) * 1.0).shape == (n % 100,)
        assert max(len(f.known), len(f.traces)) <= function_module.TRACES


def test_the_newest_version_of_a_variable_is_read() -> None:
    v = td.Variable(1.0)

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * v

    x = td.constant(2.0)
    first = f(x)
    v.assign(5.0)
    assert float(f(x)) == 10.0 and float(first) == 2.0 and f.count == 1

    @td.function
    def around(x: td.Tensor) -> td.Tensor:
        return f(x) + 1.0

    assert float(around(x)) == 11.0
    v.assign(7.0)
    assert float(around(x)) == 15.0 and around.count == 1 and f.count == 1


def test_results_know_the_line_and_the_notes_of_their_call() -> None:
    @td.function
    def f(x: td.Tensor) -> tuple[td.Tensor, td.Tensor]:
        return x * 2.0, x + 1.0

    x = td.constant(2.0)
    for _ in range(2):
        with td.metadata(part="first"):
            a, b = f(x)
        for y in (a, b, a.inputs[0]):
            assert y.filename.endswith("test_signatures.py")
            assert "a, b = f(x)" in y.line and y.metadata == {"part": "first"}
        assert a.depth == b.depth == a.inputs[0].depth + 1 == x.depth + 2
        assert x.serial < a.inputs[0].serial < a.serial < b.serial


def test_results_may_change_with_what_decides_them() -> None:
    parts = [1]

    @td.function
    def f(x: td.Tensor) -> Any:
        if len(parts) > 2:
            return x.astype("float64")
        return tuple(x * k for k in parts)

    x = td.constant(3.0)
    assert [float(y) for y in f(x)] == [3.0] == [float(y) for y in f(x)]
    parts.append(2)
    assert [float(y) for y in f(x)] == [3.0, 6.0] == [float(y) for y in f(x)]
    parts.append(3)
    assert f(x).dtype == np.float64 and float(f(x)) == 3.0 and f.count == 3


def test_recursion_that_cannot_end_says_so() -> None:
    @td.function
    def alone(x: td.Tensor) -> td.Tensor:
        return alone(x) + 1.0

    @td.function
    def first(x: td.Tensor) -> td.Tensor:
        return second(x)

    @td.function
    def second(x: td.Tensor) -> td.Tensor:
        return first(x)

    @td.function
    def growing(x: td.Tensor, n: int) -> td.Tensor:
        return growing(x, n + 1)

    @td.function
    def ending(x: td.Tensor, n: int) -> td.Tensor:
        return x if n == 0 else ending(x * n, n - 1)

    x = td.ones(2) * 1.0
    with pytest.raises(td.TraceError, match=r"alone: 'alone' calls itself") as error:
        alone(x)
    assert "return alone(x) + 1.0" in str(error.value)
    assert "float32[2]" in str(error.value) and "td.scan" in str(error.value)
    with pytest.raises(td.TraceError, match="'first' calls itself"):
        first(x)
    with pytest.raises(td.TraceError, match="without an end"):
        growing(x, 0)
    assert ending(x, 4).tolist() == [24.0, 24.0]


def test_nothing_to_work_on() -> None:
    @td.function
    def step(h: td.Tensor, x: td.Tensor) -> td.Tensor:
        return td.tanh(h + x)

    @td.function
    def joined(xs: list[td.Tensor]) -> td.Tensor:
        return td.stack(xs)

    h = start = td.zeros((0, 3)) * 1.0
    for x in td.unstack(td.zeros((0, 0, 3))):
        h = step(h, x)
    assert h is start and step(h, h).numpy().shape == (0, 3)
    assert joined([h, h]).numpy().shape == (2, 0, 3)
    with pytest.raises(td.TreadleError, match="nothing to join") as error:
        joined([])
    assert "return td.stack(xs)" in str(error.value)


class Scale(td.nn.Module):
    """A module whose calls are traced."""

    def __init__(self) -> None:
        self.factor = 2.0
        self.inner = td.nn.Linear(3, 3)
        self.parts = [1.0, 2.0]

    def forward(self, x: Any) -> Any:
        return x * self.factor + self.inner(x).sum() * 0.0 + self.parts[0]


MODULE_CHANGES: dict[str, Callable[[Any], Any]] = {
    "an attribute": lambda m: setattr(m, "factor", 3.0),
    "a module below": lambda m: setattr(m, "inner", td.nn.Linear(3, 3)),
    "an attribute below": lambda m: setattr(m.inner, "more", 1),
    "a list in place": lambda m: m.parts.__setitem__(0, 5.0),
    "training": lambda m: m.eval(),
    "trainable": lambda m: setattr(m.inner.weight, "trainable", False),
    "an attribute that goes": lambda m: delattr(m.inner, "bias"),
}


@pytest.mark.parametrize("what", MODULE_CHANGES)
def test_a_module_that_changes_is_traced_anew(what: str) -> None:
    module = Scale()
    f = td.function(lambda x: module.forward(x))
    x = td.constant([1.0, 2.0, 3.0])
    for _ in range(3):
        f(x)
    assert f.count == 1
    MODULE_CHANGES[what](module)
    if what == "an attribute that goes":
        with pytest.raises(AttributeError):
            f(x)
        return
    found = f(x).numpy()
    assert f.count == 2
    np.testing.assert_allclose(found, module(x).numpy())


@needs_core
def test_known_calls_are_what_calls_are() -> None:
    @td.function
    def f(pair: Any, k: int, y: Any) -> tuple[Any, Any]:
        a, b = pair
        return a * k + y, b - y

    xs = [td.constant(float(n)) for n in range(4)]
    for k in (1, 2, 1, 2):
        for y in (xs[2], 3.0, np.float32(4.0)):
            for pair in ((xs[0], xs[1]), (xs[3], 2.0)):
                a, b = (float(v) for v in pair)
                found = [float(v) for v in f(pair, k, y)]
                assert found == [a * k + float(y), b - float(y)]
    assert len(f.plans) == 2  # for each k, found when no number was in the way
    with pytest.raises(ValueError, match="unpack"):
        f((xs[0],), 1, xs[2])
    with td.metadata(where="here"), td.no_grad():
        made, _ = f((xs[0], xs[1]), 1, xs[2])
    assert made.metadata["where"] == "here"
    with td.metadata(where="there"):
        made, _ = f((xs[0], xs[1]), 1, xs[2])
    assert made.metadata == {"where": "there"} and "test_signatures" in made.line


@needs_core
def test_a_named_tuple_of_numbers_has_a_plan() -> None:
    class Shape(NamedTuple):
        stride: int
        sides: tuple[int, ...] = (1, 2)

    @td.function
    def f(shape: Any, x: Any) -> Any:
        return x * shape.stride + sum(shape.sides)

    x, first, second = td.constant(2.0), Shape(3), Shape(4)
    for shape in (first, second, first, Shape(3), second):
        assert float(f(shape, x)) == 2.0 * shape.stride + 3.0
    assert len(f.plans) == 3  # an equal tuple has one of its own
    assert f.count == 2


def test_a_named_tuple_with_data_has_no_plan() -> None:
    class Scaled(NamedTuple):
        by: float

    f = td.function(lambda scaled, x: scaled.by * x)
    found = [float(f(Scaled(by), td.constant(2.0))) for by in (5.0, 7.0)]
    assert found == [10.0, 14.0] and f.count == 1 and not f.plans


@needs_core
def test_items_of_variables_are_tensors_to_a_plan() -> None:
    table = td.param("table", init=np.arange(6.0, dtype="f4").reshape(3, 2))
    f = td.function(lambda x: x * 2.0)
    assert f(table[1]).tolist() == [4.0, 6.0] and len(f.plans) == 1
    assert f(table[2]).tolist() == [8.0, 10.0] and f.count == 1
    assert f(td.constant([1.0, 2.0])).tolist() == [2.0, 4.0] and f.count == 1
    assert len(f.plans) == 1


ARRAYS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "an element": (np.arange(6.0), lambda a: a.__setitem__(0, 9.0)),
    "a long array": (np.zeros(1 << 16), lambda a: a.__setitem__(-1, 9.0)),
    "whole numbers": (np.arange(6), lambda a: a.__setitem__(0, 9)),
    "flags": (np.zeros(6, bool), lambda a: a.__setitem__(3, True)),
    "halves": (np.arange(6, dtype=np.float16), lambda a: a.__imul__(2)),
    "complex numbers": (np.arange(6) + 0j, lambda a: a.__setitem__(0, 9j)),
    "one number": (np.array(2.0), lambda a: a.__setitem__((), 9.0)),
    "a part in steps": (np.arange(12.0)[::2], lambda a: a.__setitem__(1, 9.0)),
    "a transposed one": (np.arange(6.0).reshape(2, 3).T, lambda a: a.__iadd__(1)),
    "a shape": (np.arange(6.0), lambda a: setattr(a, "shape", (2, 3))),
    "a dtype": (np.arange(6), lambda a: setattr(a, "dtype", np.float64)),
    "dates": (np.arange(6).astype("M8[D]"), lambda a: a.__setitem__(0, a[1])),
    "the sign of zero": (np.zeros(6), lambda a: np.negative(a, out=a)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # shapes that are set
@pytest.mark.parametrize("what", ARRAYS)
def test_an_array_around_a_function_is_looked_at_in_each_call(what: str) -> None:
    first, change = ARRAYS[what]
    array = first if first.base is not None else first.copy()
    ones = td.constant(np.ones(2))

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return (
            x
            * float(
                np.copysign(
                    1,
                    array.view(np.int64).sum()
                    if array.dtype.kind == "M"
                    else array.sum().real,
                )
            )
            + array.ndim
        )

    for _ in range(4):
        f(ones)
    assert f.count == 1
    change(array)
    assert np.array_equal(f(ones).numpy(), f.f(ones).numpy()) and f.count == 2
    f(ones), f(ones)
    assert f.count == 2


class Point:
    """A class of a user's, whose objects are taken apart by patterns."""

    def __init__(self, **attributes: float) -> None:
        self.__dict__.update(attributes)

    def loss(self) -> float:
        raise AssertionError


def test_what_a_pattern_takes_from_an_object_was_seen() -> None:
    point = Point(across=2.0, down=3.0)

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        match point:
            case Point(across=across):
                return x * across
        return x

    assert float(f(td.constant(3.0))) == 6.0
    point.down = 5.0
    assert float(f(td.constant(3.0))) == 6.0 and f.count == 1
    point.across = 5.0
    assert float(f(td.constant(3.0))) == 15.0 and f.count == 2


def test_a_local_name_is_no_attribute() -> None:
    """`loss` is a name here: the method that has it too is not looked into."""
    point = Point(across=2.0, rates=0.0)
    Point.loss.__kwdefaults__ = {"rate": 1.0}

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        loss = x * point.across
        return loss

    for k in range(3):
        Point.loss.__kwdefaults__ = {"rate": float(k)}
        assert float(f(td.constant(3.0))) == 6.0
    assert f.count == 1
