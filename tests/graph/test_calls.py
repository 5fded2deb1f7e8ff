"""Plans of calls: what follows one makes the nodes that the long way makes."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from treadle.graph.body import trace
from treadle.graph.calls import LONGEST, Called, signature
from treadle.graph.recorded import recorded
from treadle.graph.tensor import watchers
from treadle.graph.traversal import reach
from treadle.nn.linear import affine
from treadle.ops.index import getitem

pytestmark = needs_core  # Python alone follows no plans


def x(*shape: int) -> Any:
    return td.constant(np.ones(shape, np.float32))


W = td.param("w", init=np.ones((4, 3), np.float32))
B = td.param("b", init=np.ones(4, np.float32))
TABLE = td.lookup("table", (5, 3), init=1.0)

CALLS: dict[str, tuple[Any, Callable[[], tuple[Any, ...]]]] = {
    "tanh": (td.tanh, lambda: (x(3),)),
    "of a Variable": (td.tanh, lambda: (W,)),
    "add": (td.add, lambda: (x(3), x(3))),
    "broadcast": (td.multiply, lambda: (x(2, 3), x(3))),
    "twice the same": (td.add, lambda: (x(3),) * 2),
    "twice in a list": (td.concat, lambda: ((a := x(2), x(3), a),)),
    "matmul": (td.matmul, lambda: (x(2, 3), x(3, 4))),
    "affine": (affine, lambda: (x(3), W, B)),
    "without a bias": (affine, lambda: (x(2, 3), W, None)),
    "concat of a list": (td.concat, lambda: ([x(2), x(3)],)),
    "concat of a tuple": (td.concat, lambda: ((x(2, 1), x(2, 3)), 1)),
    "split": (td.split, lambda: (x(6), 3)),
    "a row": (td.embedding, lambda: (TABLE, 4)),
    "a row of a tensor": (td.embedding, lambda: (x(5, 3), 2)),
    "norm": (td.norm, lambda: (x(2, 3),)),
    "norm of an order": (td.norm, lambda: (x(2, 3), 1.5, 1)),
    "stack": (td.stack, lambda: ([x(3), x(3)], 1)),
    "unstack": (td.unstack, lambda: (x(3, 2),)),
    "einsum": (td.einsum, lambda: ("ij,jk->ki", x(2, 3), x(3, 4))),
    "vecdot": (td.vecdot, lambda: (x(2, 3), x(3))),
    "outer": (td.outer, lambda: (x(2), x(3))),
    "std": (td.std, lambda: (x(2, 3), 1)),
    "diff": (td.diff, lambda: (td.exp(x(4)),)),
    "tile": (td.tile, lambda: (x(4), 2)),
    "nan_to_num": (td.nan_to_num, lambda: (x(4),)),
    "take_along_axis": (
        td.take_along_axis,
        lambda: (x(2, 3), td.constant(np.zeros((2, 1), np.int64))),
    ),
    "elu": (td.elu, lambda: (x(3), 0.5)),
    "leaky_relu": (td.leaky_relu, lambda: (x(3),)),
    "mse_loss": (td.mse_loss, lambda: (x(3), x(3), "sum")),
    "huber_loss": (td.huber_loss, lambda: (x(3), x(3))),
    "kl_div": (td.kl_div, lambda: (x(3), x(3))),
    "cosine_similarity": (td.cosine_similarity, lambda: (x(2, 3), x(2, 3))),
    "a range": (getitem, lambda: (td.tanh(x(3, 4)), slice(1, None))),
    "ranges": (
        getitem,
        lambda: (td.exp(x(3, 4)), (None, slice(2), ..., slice(-1, 0, -2))),
    ),
    "all of it": (getitem, lambda: (x(3, 4) + x(1), ())),
    "logistic loss": (td.binary_cross_entropy_with_logits, lambda: (x(3), x(3))),
}


def told(found: Any) -> Any:
    """All about the nodes behind some results but the numbers they have."""
    results = found if isinstance(found, (tuple, list)) else [found]
    nodes = reach(results)
    place = {node.serial: k for k, node in enumerate(nodes)}
    return type(found), [
        (
            repr(node.op),
            node.type,
            [place[y.serial] for y in node.inputs],
            node.depth,
            node.metadata,
            node.stored is None or node.stored.tolist(),  # type: ignore[union-attr]
        )
        for node in nodes
    ]


@pytest.mark.parametrize("name", CALLS)
def test_a_plan_makes_what_the_function_makes(name: str) -> None:
    f, make = CALLS[name]
    td.tanh(x(1)).numpy()  # the engine is there
    args = make()
    with td.metadata(who="me"):
        wanted = told(f.f(*args))
    for args in (make(), make(), make()):
        with td.metadata(who="me"):
            assert told(f(*args)) == wanted
    for _ in range(2):  # what is seen once may never come again
        assert told(f(*args)) == told(f.f(*args))
    assert signature(args, f.data) in f.plans


@pytest.mark.parametrize(
    "f, want",
    [
        (td.unstack, ()),
        (td.function(lambda x: ()), ()),
        (td.function(lambda x: []), []),
    ],
)
def test_a_call_may_give_nothing(f: Any, want: Any) -> None:
    for _ in range(3):
        assert f(x(0, 3)) == want


HALF, DATUM, WHOLE = 0.5, 0.37, 3
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "written": lambda x: x * 0.5,
    "written before": lambda x: 1.0 - x,
    "whole": lambda x: x + 2,
    "below zero": lambda x: x / -4.0,
    "no zero": lambda x: x * -0.0,
    "zero": lambda x: x * 0.0,
    "of a global": lambda x: x * HALF,
    "data": lambda x: x * DATUM,
    "large": lambda x: x - 1000,
    "compared": lambda x: x > 0,
    "compared with data": lambda x: x <= DATUM,
    "chosen": lambda x: td.where(x > 0.5, x, 0.0),
    "at least": lambda x: td.maximum(x, 0.25),
    "a variable": lambda x: W * 0.5 + x.sum() * WHOLE,
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_numbers_beside_tensors(name: str, dtype: str) -> None:
    """Planned calls make the leaves of the long way, written or data."""
    f, array = OPERATIONS[name], np.array([-2, 0, 3], dtype)
    with td.metadata(who="me"):
        wanted = [told(f(td.constant(array)))]
        for _ in range(3):
            wanted.append(told(f(td.constant(array))))
    ops = [[node[0] for node in nodes] for _, nodes in wanted]
    assert wanted[1:] == wanted[:-1] and ops[1:] == ops[:-1]
    value = f(td.constant(array)).numpy()
    with td.options(engine="reference"):
        assert np.array_equal(value, f(td.constant(array)).numpy(), equal_nan=True)
    assert np.signbit(f(td.constant(array)).numpy()).tolist() == (
        np.signbit(value).tolist()
    )


def test_numbers_that_are_data_are_told_by_none() -> None:
    x = td.constant(np.ones(3, np.float32))
    for k in range(20):
        number = 1.5 + k / 7
        assert np.allclose((x * number).numpy(), number)
        assert ((x * 3).numpy() == 3).all() and ((x * 3.0).numpy() == 3).all()
        assert (td.constant(np.array([1, 2])) * 1.5).type.dtype == "float32"
        assert np.allclose((x - (k + 9)).numpy(), -8 - k)


def test_numbers_that_do_not_fit_are_refused_by_plans_too() -> None:
    x = td.constant(np.array([1, 2], np.int8))
    for k in (20, 21, 22):
        assert (x + k).tolist() == [k + 1, k + 2]
    with pytest.raises(td.DTypeError, match="does not fit"):
        x + 300
    for k in (100, 101, 300, -300, 103):  # beyond the type it is on one side of all
        assert (x < k).tolist() == [k > 2] * 2


def test_traces_have_numbers_of_their_own() -> None:
    for _ in range(3):
        td.constant(1.0) * 0.5
    traced = trace(lambda x: [x * 0.5 + 2.0], [td.constant(1.0).type], "half")
    assert not traced.captured and len(reach(traced.body.outputs)) == 5


def test_what_was_assigned_is_read_and_other_variables_change_nothing() -> None:
    v, other = td.Variable(np.ones(3, np.float32)), td.Variable(np.zeros(3, np.float32))
    f = td.function(lambda x: x * v)
    for k in range(6):
        y = x(3)
        wanted = td.tanh(v.numpy()).numpy()
        other.assign(other + 1.0)  # and it waits
        assert np.array_equal(td.tanh(v).numpy(), wanted)
        v.assign(v * 2.0)
        assert (f(y) + (y * v) + td.add(v, y)).tolist() == [3.0 * 2 ** (k + 1) + 1] * 3
        assert (v.numpy() == 2 ** (k + 1)).all() and (other.numpy() == k + 1).all()


def test_calls_by_name_and_what_numbers_become() -> None:
    y = td.constant(np.ones((2, 3), np.float32))
    sums: Any = td.sum
    for _ in range(3):
        assert sums(y, axis=1, keepdims=True).type.shape == (2, 1)
        assert sums(y, keepdims=True, axis=0).type.shape == (1, 3)
        assert sums(y, axis=0).type.shape == (3,)
        assert sums(y, 0).type.shape == (3,)
    assert len(sums.plans) >= 4
    whole = td.constant(np.arange(3))
    for dtype in ("float32", "float64", "float32"):
        with td.options(dtype=dtype):
            for _ in range(3):
                assert td.exp(whole).type.dtype.name == dtype


def test_a_call_made_without_gradients_is_planned_for_all() -> None:
    y, function = td.constant([0.5, 0.25]), recorded(lambda y: td.tanh(y) * y)
    called: Any = function
    with td.no_grad():
        for _ in range(4):
            assert function(y).mark
    assert called.plans
    for _ in range(3):
        assert function(y).mark is None and td.grad(function(y).sum(), [y])
    with td.no_grad():
        assert function(y).mark


def test_equal_arguments_say_nothing_of_unequal_ones() -> None:
    a, b = td.constant([1.0]), td.constant([2.0])
    f = Called(lambda *args: None)
    assert isinstance(td.add, Called) and isinstance(f, Called)
    shape = td.constant(np.ones((1, 1, 7), np.float32))
    assert float(td.subtract(shape, shape).sum()) == 0.0
    assert float(td.subtract(shape, shape * 3.0).sum()) == -14.0
    for _ in range(2):
        products = [td.multiply(*p) for p in ((a, a), (a, b), (b, b))]
        assert [float(p[0]) for p in products] == [1, 2, 4]
        joined = [td.concat(p).tolist() for p in ((a, b, a), (a, b, b), (a, a, b))]
        assert joined == [[1, 2, 1], [1, 2, 2], [1, 1, 2]]


def test_lines_are_the_users() -> None:
    td.tanh(x(2)), td.tanh(x(2))
    y = td.tanh(x(2)); line = sys._getframe().f_lineno  # fmt: skip  # noqa: E702
    assert (y.filename, y.lineno) == (__file__, line)
    layer = td.nn.Linear(3, 2)
    for _ in range(3):
        z = layer(x(3))
    assert z.filename == __file__ and z.metadata["module"] == "Linear"


def test_what_is_around_a_call_counts() -> None:
    v = td.Variable([1.0])
    assert td.negative(v).tolist() == [-1.0] == td.negative(v).tolist()
    v.assign([5.0])
    assert td.negative(v).tolist() == [-5.0]
    traced = td.function(lambda: td.negative(v))
    assert traced().tolist() == [-5.0]
    v.assign([6.0])
    assert traced().tolist() == [-6.0]
    w = td.param("w", init=[2.0])
    with td.no_grad():
        y = td.negative(w)
    z = td.negative(w)
    assert td.grad((y * z).sum(), [w])[0].tolist() == [2.0]
    with td.options(eager=True):
        assert td.negative(w).stored is not None
    assert td.negative(w).stored is None and not watchers  # plans are followed again


def test_other_arguments_take_the_long_way() -> None:
    assert td.tanh(x=0.0).item() == 0.0  # by name
    assert td.add(1.0, x(2)).tolist() == [2.0, 2.0]
    many = [td.constant([float(k)]) for k in range(LONGEST)]
    for _ in range(2):
        assert td.concat(many).tolist() == [float(k) for k in range(LONGEST)]
    with pytest.raises(td.ShapeError, match=r"td\.|\(2,\)"):
        td.add(x(2), x(3))
    with pytest.raises(TypeError):
        td.tanh()
    table = td.constant(np.arange(6.0).reshape(3, 2))
    for _ in range(2):
        assert td.embedding(table, True + 1).tolist() == [4.0, 5.0]
        with pytest.raises(td.TreadleError, match="too large"):
            td.embedding(table, 1 << 70)
        with pytest.raises(td.RunError, match="id 7"):
            td.embedding(table, 7).numpy()


PARTS: dict[str, tuple[Any, bool]] = {  # keys, and whether a plan knows them
    "a range": (slice(1, None), True),
    "two": ((slice(None, 2), slice(0, 3, 2)), True),
    "a new dimension": ((None, ..., slice(-2, None)), True),
    "whole numbers": (1, False),
    "beside a range": ((1, slice(2)), False),
    "numbers of NumPy's": (slice(np.int64(0), 2), False),
    "a list": ([0, 2], False),
    "an array": (np.array([2, 0]), False),
    "a mask": (np.array([True, False, True]), False),
    "a large one": (slice(0, 1 << 70), False),
    "more than a key has": ((slice(0, 2), ..., *[None] * 40), False),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_what_waits_are_planned_by_their_ranges(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, known = PARTS[name]
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for _ in range(3):
        found = (td.constant(array) * 2.0)[key]
    assert (signature((td.exp(found), key), getitem.data) is not None) == known
    np.testing.assert_array_equal(found.numpy(), 2 * array[key])
    calls = []
    monkeypatch.setattr(getitem, "f", lambda *x: calls.append(x))
    (td.constant(array) * 2.0)[key]
    assert len(calls) == (not known)


def test_parts_of_what_has_a_value_are_not_planned() -> None:
    v = td.Variable(np.arange(6, dtype=np.float32).reshape(2, 3))
    for k in range(4):
        x = td.constant(np.full((2, 3), k, np.float32))
        assert x[:, 1:].stored is not None and x[:, 1:].tolist() == [[k, k]] * 2
        v.assign(v + 1.0)
        assert v[1:].tolist() == v.numpy()[1:].tolist()
        y = td.tanh(x)
        y.numpy()
        assert y[:1].tolist() == y.numpy()[:1].tolist()


def test_no_reference_is_kept_or_lost() -> None:
    for name, (f, make) in CALLS.items():
        args = make()
        things = [*args, *(y.type for y in args if isinstance(y, td.Tensor)), None]
        for _ in range(3):
            f(*args)
        before = list(map(sys.getrefcount, things))
        for _ in range(1000):
            f(*args)
        after = list(map(sys.getrefcount, things))
        off = [abs(b - a) for a, b in zip(before, after, strict=True)]
        assert max(off) < 500, (name, off)
    gc.collect()


def test_an_error_on_the_way_loses_nothing() -> None:
    around = {"scale": td.constant(2.0)}
    f = td.function(lambda a: a + around["scale"])
    a = td.constant(1.0)
    assert [float(f(a)) for _ in range(3)] == [3.0] * 3
    around["scale"] = td.constant(5.0)  # what it names is another one
    assert [float(f(a)) for _ in range(3)] == [6.0] * 3
    before = sys.getrefcount(a)
    del around["scale"]
    for _ in range(100):
        with pytest.raises(KeyError):
            f(a)
    assert sys.getrefcount(a) - before < 20


def test_threads_call_side_by_side() -> None:
    wrong: list[float] = []

    def work(k: int) -> None:
        for _ in range(300):
            y = td.tanh(td.add(td.constant([float(k)]), td.constant([1.0])))
            if y.op.name != "Tanh" or y.inputs[0].op.name != "Add":
                wrong.append(k)
        if not np.isclose(float(y[0]), np.tanh(k + 1.0)):
            wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_plans_keep_no_variable_alive() -> None:
    """A network that is let go of is gone, and another one in its place is not it;
    tables that are alike share a plan."""
    for rows in (5, 7, 9):
        table = td.lookup("mine", (rows, 3), init=float(rows))
        for _ in range(3):
            assert td.embedding(table, 4).tolist() == [float(rows)] * 3
        known, gone = len(td.embedding.plans), weakref.ref(table)
        del table
        gc.collect()
        other = td.lookup("another", (rows, 3), init=-float(rows))
        assert gone() is None
        assert td.embedding(other, 4).tolist() == [-float(rows)] * 3
        assert len(td.embedding.plans) == known


def test_variables_of_one_type_share_a_plan_and_one_passed_twice_has_its_own() -> None:
    u, v = (td.param(name, init=np.full(13, x)) for name, x in (("u", 2.0), ("v", 3.0)))
    before = len(td.multiply.plans)
    for _ in range(3):
        assert float(td.multiply(u, v)[0]) == float(td.multiply(v, u)[0]) == 6.0
    shared = len(td.multiply.plans)
    for _ in range(3):
        assert [float(td.multiply(x, x)[0]) for x in (u, v)] == [4.0, 9.0]
    assert len(td.multiply.plans) - shared == shared - before == 1


def test_a_call_first_made_in_a_trace_is_planned_later() -> None:
    weight = td.param("traced", init=np.ones((6, 11), np.float32))
    given = x(11)
    td.tanh(given).numpy()
    td.function(lambda y: affine(y, weight, None))(given)
    for _ in range(2):
        affine(given, weight, None)
    assert signature((given, weight, None), False) in affine.plans


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "one": lambda x, k: x * 2 + k,
    "several": lambda x, k: (x * 2, [x + k]),
    "draws": lambda x, k: x + k + td.random.uniform((3,)) * 0,
    "a number beside": lambda x, k: (x + k, "text"),
}
NEIGHBORS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "the same": lambda a: a.copy(),
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "backwards": lambda a: a[::-1].copy()[::-1],
    "swapped bytes": lambda a: a.astype(">f4"),
    "double": lambda a: a.astype(np.float64),
    "whole": lambda a: a.astype(np.int64),
    "longer": lambda a: np.concatenate([a, a[:0], a]).reshape(2, 3),
    "half": lambda a: td.asarray(a).astype("bfloat16").numpy(),
    "a tensor": td.asarray,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_of_calls_are_told_by_their_format_and_extents(name: str) -> None:
    plain, known = FUNCTIONS[name], td.function(FUNCTIONS[name])
    first, k = np.arange(3, dtype=np.float32), td.constant(np.float32(1.0))
    for _ in range(3):
        known(first, k)
    assert known.plans
    count = known.count
    for change in NEIGHBORS.values():
        for _ in range(2):
            a = change(first + 1)
            results, wanted = known(a, k), plain(td.asarray(a), k)
            if isinstance(a, np.ndarray) and a.flags.writeable:
                a[...] = 7  # what a call has taken is its own
            for x, y in zip(_leaves(results), _leaves(wanted), strict=True):
                assert x == y if isinstance(x, str) else told_of(x) == told_of(y)
    assert known.count >= count + 3  # longer, double and whole, at the least


def _leaves(x: Any) -> list[Any]:
    return [leaf for y in x for leaf in _leaves(y)] if type(x) in (tuple, list) else [x]


def told_of(x: Any) -> Any:
    return x.type, x.numpy().tolist()


def test_calls_that_run_at_once_are_entered_by_the_core() -> None:
    """A step within a function, by arrays, by tensors, and with what it assigns."""
    total = td.Variable(0.0, trainable=False)
    weight, optimizer = td.param("w", init=np.ones(3, np.float32)), td.optim.SGD(lr=0.5)

    def step(x: Any) -> Any:
        total.assign(total + 1.0)
        return optimizer.step((x * weight).sum())

    known = td.function(step)
    x = np.ones(3, np.float32)
    given: list[Any] = [x, x, x, x, td.asarray(x), td.asarray(x), x]
    losses = [float(known(each)) for each in given]
    assert losses == [3.0 - 1.5 * k for k in range(7)]
    assert float(total) == 7.0 and known.plans and known.count == 1
    weight.trainable = False
    other = td.param("v", init=1.0)
    with pytest.raises(td.GradientError):
        known(x)
    weight.trainable = True
    optimizer.lr = 1.0
    assert float(known(x)) == 3.0 - 1.5 * 7 and other.trainable
    assert weight.numpy().tolist() == [1.0 - 0.5 * 7 - 1.0] * 3


def test_what_becomes_of_a_number_in_a_graph_concerns_no_plan() -> None:
    def scaled() -> Any:
        return x(13) * 2.0

    for _ in range(2):  # the second one has the plan
        y = scaled()
    y.inputs[1].stored = np.zeros(5, np.float32)
    assert float(scaled().inputs[1].array) == 2.0


def test_an_array_beside_tensors_is_a_leaf_of_its_own() -> None:
    changes = {**NEIGHBORS, "large": lambda a: np.tile(a, 700)}
    for name, change in changes.items():
        for f in (td.add, td.multiply, td.minimum):
            for _ in range(4):  # without a plan, then by one
                a = change(np.arange(3, dtype=np.float32))
                wanted = f(td.asarray(a), 2.0).numpy().tolist()
                y = f(a, 2.0)
                leaf = next(x for x in reach([y]) if x.type.shape and not x.inputs)
                if isinstance(a, np.ndarray):
                    assert leaf.type is td.asarray(a).type
                    assert not leaf.array.flags.writeable
                    assert leaf.array.flags.c_contiguous
                    assert not np.shares_memory(leaf.array, a), name
                    if a.flags.writeable:
                        a[...] = 7
                assert y.numpy().tolist() == wanted
    line = sys._getframe().f_lineno + 1
    y = td.tanh(np.ones(3, np.float32))
    assert f":{line}" in y.line and y.inputs[0].line == y.line


def test_what_is_no_array_of_numbers_is_refused_as_by_the_function() -> None:
    for wrong in (np.array(["a", None], object), np.array(["a", "b"])):
        for _ in range(3):
            with pytest.raises(td.DTypeError):
                td.add(wrong, 1.0)
