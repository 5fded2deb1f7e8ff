"""`@td.function`: traces, guards, state inside, derivatives through calls."""

from __future__ import annotations

import contextvars
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import treadle as td

SCALE = 2.0


def test_one_trace_for_a_signature() -> None:
    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * x + 1.0

    for value in (1.0, 2.0, 3.0):
        assert float(f(td.constant(value))) == value * value + 1.0
    assert f.count == 1
    assert f(td.ones(3)).tolist() == [2.0, 2.0, 2.0] and f.count == 2


def test_containers_and_plain_results() -> None:
    @td.function
    def f(pair: dict, flip: bool = False) -> tuple:  # type: ignore[type-arg]
        a, b = pair["a"], pair["b"]
        return {"sum": a + b}, ("label", b if flip else a)

    first, (label, second) = f(
        {"a": td.constant(1.0), "b": td.constant(2.0)}, flip=True
    )
    assert float(first["sum"]) == 3.0 and label == "label" and float(second) == 2.0
    f({"a": td.constant(1.0), "b": td.constant(2.0)})
    assert f.count == 2


def test_a_rebound_global_retraces(monkeypatch: pytest.MonkeyPatch) -> None:
    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * SCALE

    assert float(f(td.constant(3.0))) == 6.0
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert float(f(td.constant(3.0))) == 15.0


def test_gradients_reach_arguments_variables_and_captured() -> None:
    w, c = td.param("w", init=3.0), td.param("c", init=5.0)
    captured = c * 2.0

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * w + td.sin(x) * captured

    x = td.param("x", init=2.0)
    y = f(x * 1.0)
    gx, gw, gc = td.grad(y, [x, w, c])
    assert float(gw) == 2.0
    assert float(gx) == pytest.approx(3.0 + 10.0 * float(td.cos(2.0)), rel=1e-6)
    assert float(gc) == pytest.approx(2.0 * float(td.sin(2.0)), rel=1e-6)
    (ggx,) = td.grad(gx, [x])
    assert float(ggx) == pytest.approx(-10.0 * float(td.sin(2.0)), rel=1e-6)


def test_variables_assigned_inside() -> None:
    count = td.Variable(0)

    @td.function
    def tick(x: td.Tensor) -> td.Tensor:
        count.assign(count + 1)
        return x * count

    assert [float(tick(td.constant(2.0))) for _ in range(3)] == [2.0, 4.0, 6.0]
    assert int(count) == 3 and tick.count == 1


def test_an_exception_drops_what_was_assigned() -> None:
    v = td.Variable(1.0)

    @td.function
    def broken() -> td.Tensor:
        v.assign(v + 1.0)
        raise KeyError("no")

    with pytest.raises(KeyError):
        broken()
    assert float(v) == 1.0


def test_a_condition_on_a_value_names_the_remedy() -> None:
    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x if x > 0 else -x

    with pytest.raises(td.TraceError, match=r"td\.cond"):
        f(td.constant(1.0))


def test_draws_are_new_at_each_call() -> None:
    @td.function
    def noise() -> td.Tensor:
        return td.random.uniform((3,))

    assert noise().tolist() != noise().tolist()
    assert noise.count == 1


def test_a_step_inside_runs_at_the_call() -> None:
    w = td.param("w", init=1.0)
    optimizer = td.optim.SGD(lr=0.25)

    @td.function
    def train(x: td.Tensor) -> td.Tensor:
        return optimizer.step(w * w * x)

    assert float(train(td.constant(1.0))) == 1.0
    assert w.committed.stored is not None and float(w.committed) == 0.5
    assert float(train(td.constant(1.0))) == 0.25
    assert train.count == 1


def test_recursion_on_the_same_signature_is_an_error() -> None:
    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return f(x)

    with pytest.raises(td.TraceError, match="calls itself"):
        f(td.constant(1.0))


def test_methods_are_functions_too() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = td.param("w", init=2.0)

        @td.function
        def apply(self, x: td.Tensor) -> td.Tensor:
            return x * self.w

    model = Model()
    assert float(model.apply(3.0)) == 6.0
    model.w = td.param("w", init=5.0)
    assert float(model.apply(3.0)) == 15.0


def test_branches_and_loops_with_state() -> None:
    v = td.Variable(0.0)

    def up(x: td.Tensor) -> td.Tensor:
        v.assign(v + x)
        return x

    y = td.cond(td.constant(True), up, lambda x: -x, td.constant(4.0))
    assert float(y) == 4.0 and float(v) == 4.0
    td.cond(td.constant(False), up, lambda x: -x, td.constant(4.0))
    assert float(v) == 4.0
    x = td.param("x", init=1.5)
    z = td.while_loop(lambda s: s < 10.0, lambda s: s * x, x * 1.0, max_iterations=12)
    assert float(td.grad(z, [x])[0]) == pytest.approx(6 * 1.5**5, rel=1e-5)


def callables(net: td.nn.Module) -> dict[str, Callable[..., Any]]:
    """A network as what may be called and traced."""
    return {
        "Sequential": net,
        "forward": net.forward,
        "partial": functools.partial(net),
        "inner": td.function(net),
    }


@pytest.mark.parametrize("kind", ["Sequential", "forward", "partial", "inner"])
def test_a_network_is_traced_and_its_changes_are_seen(kind: str) -> None:
    net = td.nn.Sequential(td.nn.Linear(3, 2), td.nn.Dropout(0.9))
    x = np.ones((8, 3), np.float32)
    traced = td.function(callables(net)[kind])
    assert traced.__name__ == ("Sequential" if kind == "inner" else kind)
    assert (traced(x).numpy() == 0).any(), "dropout drops in training"
    net.eval()
    np.testing.assert_array_equal(traced(x).numpy(), net(x).numpy())
    net[0].weight = td.Parameter(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(traced(x).numpy(), net(x).numpy())
    count = traced.count
    for _ in range(3):
        traced(x)
    assert traced.count == count, "nothing has changed, nothing is traced"
    # Attributes of the network are not the function's.
    assert not hasattr(traced, "training") and callable(traced.f)


def test_a_forward_that_names_a_global_is_looked_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Scaled(td.nn.Module):
        def forward(self, x: Any) -> Any:
            return td.asarray(x) * SCALE

    monkeypatch.setitem(globals(), "SCALE", 2)
    traced = td.function(Scaled())
    assert traced.__name__ == "Scaled" and float(traced(3.0)) == 6.0
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert float(traced(3.0)) == 15.0


def test_print_shows_how_a_traced_tensor_is_computed(capsys: Any) -> None:
    w = td.param("w", init=np.ones(3, np.float32))

    @td.function
    def f(a: Any) -> Any:
        print("inside", a, f"{a}", f"{a.sum():.2f}", w, str(a * w))
        return td.tanh(a) * 2

    for _ in range(2):
        f(td.ones(3))
    told = capsys.readouterr().out
    assert told.count("float32[3]") == 4 and told.count("inside") == 1
    assert "sum" in told and "Tensor(argument 0 : float32[3])" in told
    print(f(td.ones(3)))
    assert "1.52" in capsys.readouterr().out


_table = np.ones(3, np.float32)


class _Scaled(td.nn.Module):
    shift = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.mean = np.zeros(3, np.float32)
        self.parts = {"k": [np.ones(3, np.float32)]}
        self._factor = 2.0

    @property
    def factor(self) -> float:
        return self._factor * _outside["factor"]

    def helped(self, x: Any) -> Any:
        return x * self.factor + _outside["bias"]

    def forward(self, x: Any) -> Any:
        return self.helped(x - self.mean) * self.parts["k"][0] + self.shift


class _Plain:
    def __init__(self) -> None:
        self.hidden = 3.0

    @property
    def value(self) -> float:
        return self.hidden

    def __call__(self, x: Any) -> Any:
        return x * self.value


_outside = {"factor": 1.0, "bias": 0.5}


def _keyword(x: Any, *, c: float = 1.0) -> Any:
    return x * c


def test_a_function_sees_what_was_changed_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In place, in a property, in a class, in defaults: as outside of td.function."""
    x = td.asarray(np.array([1.0, 2.0, 4.0], np.float32))
    scaled, plain, large = _Scaled(), _Plain(), np.zeros((3, 5000), np.float32)
    shared = [np.ones(3, np.float32)]

    def of_default(x: Any, c: Any = 1.0, d: Any = _table) -> Any:
        return x * c * d

    functions: list[Any] = [
        lambda x: x * _table + shared[0] * large.sum(1),
        scaled,
        plain,
        of_default,
        _keyword,
    ]
    traced = [td.function(f) for f in functions]

    def agree() -> None:
        for _ in range(3):  # the second call on is followed by a plan
            for f, t in zip(functions, traced, strict=True):
                np.testing.assert_array_equal(t(x).numpy(), f(x).numpy())

    agree()
    counts = [t.count for t in traced]
    agree()
    assert counts == [t.count for t in traced] == [1] * 5
    _table[1] = 7
    agree()
    _table[1] = 1
    large[0, 4321] = 1
    agree()
    shared[0] += 1
    agree()
    scaled.mean += 3
    agree()
    scaled.parts["k"][0][2] = 9
    agree()
    scaled._factor = 5.0
    agree()
    monkeypatch.setattr(_Scaled, "shift", 4.0)
    agree()
    for name in _outside:
        monkeypatch.setitem(_outside, name, 8.0)
        agree()
    plain.hidden = 4.0
    agree()
    of_default.__defaults__ = (5.0, np.ones(3))
    agree()
    of_default.__defaults__[1][0] = 3.0
    agree()
    monkeypatch.setattr(_keyword, "__kwdefaults__", {"c": 6.0})
    agree()


class Slots:
    __slots__ = ("k",)
    k: float


class Gives:
    """A descriptor, and what __getattr__ and __getitem__ give, by what a dict has."""

    inner: ClassVar[dict[str, float]] = {"k": 1.0}

    def __get__(self, *_: Any) -> float:
        return self.inner["k"]

    def __getattr__(self, name: str) -> float:
        if name != "any":
            raise AttributeError(name)
        return self.inner["k"]

    def __getitem__(self, key: str) -> float:
        return self.inner[key]


class Has:
    k = Gives()

    def __init__(self) -> None:
        self.array = np.ones(2, np.float32)

    @property
    def value(self) -> float:
        return 1.0

    def scaled(self, x: Any) -> Any:
        return td.tanh(td.asarray(x)) * self.array


_has, _gives, _slots = Has(), Gives(), Slots()
_module: Any = types.ModuleType("module_of_this_test")
_partial = functools.partial(lambda x, k: td.exp(x) * k, k=1.0)
_deque, _set, _bytes = deque([1.0]), {1.0}, bytearray([1])
CHANGED: dict[str, tuple[Any, Callable[[float], object]]] = {
    "slot": (lambda x: td.exp(x) * _slots.k, lambda k: setattr(_slots, "k", k)),
    "module": (lambda x: td.exp(x) * _module.k, lambda k: setattr(_module, "k", k)),
    "partial": (lambda x: _partial(x), lambda k: _partial.keywords.update(k=k)),
    "deque": (lambda x: td.exp(x) * _deque[0], _deque.appendleft),
    "set": (lambda x: td.exp(x) * sum(_set), _set.add),
    "bytes": (lambda x: td.exp(x) * _bytes[0], lambda k: _bytes.insert(0, int(k))),
    "descriptor": (lambda x: td.exp(x) * _has.k, lambda k: Gives.inner.update(k=k)),
    "getattr": (lambda x: td.exp(x) * _gives.any, lambda k: Gives.inner.update(k=k)),
    "getitem": (lambda x: td.exp(x) * _gives["k"], lambda k: Gives.inner.update(k=k)),
    "array of a method": (_has.scaled, lambda k: _has.array.fill(k)),
    "another property": (
        lambda x: td.exp(x) * _has.value,
        lambda k: setattr(Has, "value", property(lambda self: k)),
    ),
}


class Config:
    k = 1.0

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return td.exp(x) * cls.k

    def __neg__(self) -> float:
        return self.k

    def __eq__(self, other: object) -> bool:
        return self.k == other

    __hash__ = None  # type: ignore[assignment]


class FewSlots:
    __slots__ = ("k",)
    k: float


class SlotsAndDict(FewSlots):
    """With a dict beside the slots."""


def _by(held: Any, x: Any) -> Any:
    return td.exp(x) * held.k


def _object_first(x: Any) -> Any:
    held = _space  # before the function that names the attribute
    return _by(held, x)


def _of_closure(held: Any) -> Callable[[Any], Any]:
    return lambda x: _by(held, x)


_space, _closed, _slotted = types.SimpleNamespace(), Config(), SlotsAndDict()
_context: contextvars.ContextVar[float] = contextvars.ContextVar("k", default=1.0)
_inner = {"k": [1.0]}
_proxy, _buffer = types.MappingProxyType(_inner), bytearray([1])
_memory, _objects = memoryview(_buffer), np.array([types.SimpleNamespace()])
_layers, _longer = [[1.0]], [1.0]
_listed = type("Listed", (list,), {})([1.0, 2.0])
_ordered = {f"k{k}": float(k) for k in range(1, 6)}
_moved = OrderedDict(_ordered)
_chain: Any = types.SimpleNamespace()
for _ in range(12):
    _chain = types.SimpleNamespace(next=_chain)


def _last(chain: Any) -> Any:
    while hasattr(chain, "next"):
        chain = chain.next
    return chain


CHANGED |= {
    "object before who reads it": (_object_first, lambda k: setattr(_space, "k", k)),
    "object of a closure": (_of_closure(_closed), lambda k: setattr(_closed, "k", k)),
    "slot beside a dict": (
        lambda x: td.exp(x) * _slotted.k,
        lambda k: setattr(_slotted, "k", k),
    ),
    "class": (lambda x: td.exp(x) * Config.k, lambda k: setattr(Config, "k", k)),
    "class method": (lambda x: Config.scaled(x), lambda k: setattr(Config, "k", k)),
    "operator": (lambda x: td.exp(x) * -_closed, lambda k: setattr(_closed, "k", k)),
    "comparison": (
        lambda x: td.exp(x) * (1.0 if _closed == 3.0 else 2.0),
        lambda k: setattr(_closed, "k", k),
    ),
    "attribute by a string": (
        lambda x: td.exp(x) * getattr(_space, "".join(["l", "o"]), 0.0),
        lambda k: setattr(_space, "lo", k),
    ),
    "read-only mapping": (
        lambda x: td.exp(x) * _proxy["k"][0],
        lambda k: _inner.update(k=[k]),
    ),
    "context": (lambda x: td.exp(x) * _context.get(), _context.set),
    "memory": (
        lambda x: td.exp(x) * _memory[0],
        lambda k: _buffer.__setitem__(0, int(k)),
    ),
    "array of objects": (
        lambda x: td.exp(x) * _objects[0].k,
        lambda k: setattr(_objects[0], "k", k),
    ),
    "item of a list": (
        lambda x: td.exp(x) * _layers[0][-1],
        lambda k: _layers[0].__setitem__(0, k),
    ),
    "list that is longer": (
        lambda x: td.exp(x) * sum(_longer),
        lambda k: _longer.append(k),
    ),
    "list of a class of its own": (
        lambda x: td.exp(x) * sum(_listed),
        lambda k: _listed.__setitem__(0, k),
    ),
    "order of a dict": (
        lambda x: td.exp(x) * next(iter(_ordered.values())),
        lambda k: _ordered.update({(n := next(iter(_ordered))): _ordered.pop(n)}),
    ),
    "order of an OrderedDict": (
        lambda x: td.exp(x) * next(iter(_moved.values())),
        lambda k: _moved.move_to_end(next(iter(_moved))),
    ),
    "far inside": (
        lambda x: td.exp(x) * _last(_chain).k,
        lambda k: setattr(_last(_chain), "k", k),
    ),
}


@pytest.mark.parametrize(("f", "change"), CHANGED.values(), ids=list(CHANGED))
def test_what_is_changed_where_it_is_named_is_seen(f: Any, change: Any) -> None:
    traced, x = td.function(f), np.ones(2, np.float32)
    for k in range(2, 5):
        change(float(k))
        np.testing.assert_array_equal(traced(x).numpy(), f(x).numpy())
        assert traced.count == k - 1
        traced(x)
        assert traced.count == k - 1


class Logged:
    """A user's object, a method of which has the name of a function of the library."""

    def __init__(self) -> None:
        self.weight = td.param(init=np.ones(3, np.float32))
        self.losses: list[float] = []

    def log(self, loss: float) -> None:
        self.losses.append(loss)

    def loss(self, x: td.Tensor) -> td.Tensor:
        return td.log(1 + td.exp(x * self.weight)).sum()


def test_a_function_of_the_library_is_no_method_of_the_same_name() -> None:
    logged = Logged()
    f = td.function(lambda x: logged.loss(x))
    for _ in range(4):
        logged.log(float(f(np.ones(3, np.float32))))
    assert f.count == 1
