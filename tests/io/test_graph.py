"""Graphs in files: what is loaded computes the same bits, also in a fresh process."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import by_letter, each
from tests.ops.samples import samples_of
from tests.ops.test_contract import arrays_of
from treadle import nn
from treadle.base import trees
from treadle.base.types import TupleType
from treadle.graph.body import Body
from treadle.graph.definition import define, parse
from treadle.graph.leaves import Argument, constant_node
from treadle.graph.op import registry
from treadle.graph.tensor import Tensor
from treadle.io.tensors import load_arrays, save_arrays
from treadle.ops.families import outputs_of

Made = tuple[Any, list[Any]]
RNG = np.random.default_rng(0)


def network() -> Made:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    ).eval()
    x = td.placeholder((2, 1, 8, 8), name="x")
    return td.computation({"logits": net(x)}, x), [RNG.normal(size=(2, 1, 8, 8))]


def training() -> Made:
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = td.optim.Adam(lr=0.1)
    x = td.placeholder((4, 3), name="x")

    @td.function
    def step(x: Any) -> Any:
        loss = td.mean(net(x) ** 2)
        optimizer.step(loss)
        return loss

    step(np.ones((4, 3), "f4"))  # the states are there
    return td.computation(td.mean(net(x) ** 2), x), [RNG.normal(size=(4, 3))]


def updates() -> Made:
    x = td.placeholder((), name="x")
    total, count = td.Variable(0.0, name="total"), td.Variable(0, name="count")
    total += x
    count += 1
    return td.computation([total, (count, total / count)], x), [2.5]


def loops() -> Made:
    x = td.placeholder((5, 3), name="x")
    w = td.param("w", init=RNG.normal(size=(3, 3)).astype("f4"))
    _, rows = td.scan(lambda h, v: (td.tanh(h @ w + v),) * 2, td.zeros(3), x)
    n = td.while_loop(lambda n: n < 100.0, lambda n: n * 2 + 1, td.sum(x * x) + 1)
    y = td.cond(td.sum(x) > 0, lambda: x * 2, lambda: -x)
    return td.computation((rows, n, y), x), [RNG.normal(size=(5, 3))]


def gradients() -> Made:
    x = td.placeholder((4,), name="x")
    w = td.param("w", init=RNG.normal(size=4))
    loss = td.sum(td.exp(w * x)) + 3.25
    return td.computation([loss, *td.grad(loss, [w])], x), [RNG.normal(size=4)]


def axes() -> Made:
    b, c = td.Axis("batch", 2), td.Axis("in width", 3)
    x = td.placeholder((2, 3), name="x", axes=(b, c))
    w = td.param("w", init=td.asarray(np.arange(3.0), axes=(c,)).numpy())
    large = td.asarray(RNG.normal(size=(2, 3)), axes=(b, c))
    return td.computation(td.sum(x * large, axis="batch") * w[0], x), [np.ones((2, 3))]


def table() -> Made:
    rows = td.lookup("E", (7, 3), init=0.5)
    ids = td.placeholder((4,), "int64", name="ids")
    return td.computation(td.rows(rows, ids) + td.asarray(1.5, "bfloat16"), ids), [
        np.array([0, 6, 3, 3])
    ]


CASES: list[Callable[[], Made]] = [
    network, training, updates, loops, gradients, axes, table,
]  # fmt: skip


def bits(value: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in trees.flatten(value)[0]]


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".bin"])
@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
def test_a_loaded_computation_gives_the_same_bits(
    tmp_path: Path, make: Callable[[], Made], ending: str
) -> None:
    with td.options(seed=3):
        computation, inputs = make()
    path = tmp_path / f"model{ending}"
    td.save(path, computation, metadata={"made": "here"})
    first = path.read_bytes()
    again = td.load_computation(path)
    assert load_arrays(path)[1]["made"] == "here"
    td.save(path, again, metadata={"made": "here"})
    assert path.read_bytes() == first, "saving what was loaded gives the same file"
    for _ in range(3):
        with td.options(seed=5):
            want = computation(*inputs)
        with td.options(seed=5):
            found = again(*inputs)
        assert type(want) is type(found) and bits(want) == bits(found)
    names = [p.name for p in computation.placeholders]
    assert [p.name for p in again.placeholders] == names


def test_it_runs_where_its_python_is_not(tmp_path: Path) -> None:
    computation, inputs = network()
    td.save(tmp_path / "m.bin", computation)
    np.save(tmp_path / "x.npy", inputs[0].astype("f4"))
    code = (
        "import sys, numpy as np, treadle as td; folder = sys.argv[1]\n"
        "y = td.load_computation(folder + '/m.bin')(np.load(folder + '/x.npy'))\n"
        "np.save(folder + '/y.npy', y['logits'])"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    want = computation(inputs[0].astype("f4"))["logits"]
    assert np.load(tmp_path / "y.npy").tobytes() == want.tobytes()


ON_HOST = {"Callback", "Host", "HostEffect"}  # what they call is no data


@pytest.mark.parametrize("name", sorted(ON_HOST))
def test_functions_of_the_host_are_not_written(name: str, tmp_path: Path) -> None:
    sample = samples_of(registry[name])[0]
    y = sample.op(*map(constant_node, map(np.array, arrays_of(sample))))
    root = outputs_of(y)[0] if isinstance(y.type, TupleType) else y
    with pytest.raises(td.TreadleError, match="a function cannot be written") as told:
        td.save(tmp_path / "f.npz", td.computation(root))
    assert __file__ in str(told.value)


@each("name", by_letter(sorted(set(registry.whole()) - ON_HOST)))
def test_every_op_is_written_and_read(name: str) -> None:
    try:
        samples = samples_of(registry[name])
    except NotImplementedError:
        pytest.skip("it stands for something outside a graph")
    for sample in samples:
        arrays = [np.array(a) for a in arrays_of(sample)]
        own = [
            Tensor(Argument(k), (), constant_node(a).type) for k, a in enumerate(arrays)
        ]
        y = sample.op(*own)
        several = isinstance(y.type, TupleType)
        body = Body("body", own, outputs_of(y) if several else [y])
        kept: dict[str, Any] = {}

        def keep(value: Any, kept: dict[str, Any] = kept) -> str:
            kept[f"c{len(kept)}"] = value
            return f"c{len(kept) - 1}"

        text = define(body, [], keep)
        again = parse(text, [], kept)
        names = {id(value): name for name, value in kept.items()}
        assert define(again, [], lambda v: names[id(v)]) == text
        with np.errstate(all="ignore"):
            want, found = body.numpy(arrays), again.numpy(arrays)
        for a, b in zip(want, found, strict=True):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


COUNTED = """
import sys, numpy as np, treadle as td
folder, code = sys.argv[1], sys.argv[2] == "code"
computation = td.load_computation(folder + "/m.npz", code=code)
with td.options(seed=5):
    found = computation(np.load(folder + "/x.npy"))
parts = td.base.trees.flatten(found)[0]
np.savez(folder + "/y.npz", *parts)
print(td.cache_info().compiled)
"""


@pytest.mark.parametrize("make", [network, training, loops, table])
def test_with_its_code_nothing_is_compiled(
    tmp_path: Path, make: Callable[[], Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    computation, inputs = make()
    before = [
        v.numpy().tobytes()
        for v in computation.variables
        if v.committed.stored is not None
    ]
    td.save(tmp_path / "m.npz", computation, example=inputs)
    plain = td.load_computation(tmp_path / "m.npz")
    after = [
        v.numpy().tobytes()
        for v in computation.variables
        if v.committed.stored is not None
    ]
    assert after == before, "saving an example changes nothing"
    with td.options(seed=5):
        want = computation(*inputs)
    with td.options(seed=5):
        assert bits(plain(*inputs)) == bits(want)
    monkeypatch.setenv("TREADLE_CACHE", "0")
    np.save(tmp_path / "x.npy", inputs[0])
    counts = []
    for code in ("", "code"):
        command = [sys.executable, "-c", COUNTED, str(tmp_path), code]
        counts.append(int(subprocess.check_output(command)))
        with np.load(tmp_path / "y.npz") as found:
            assert [found[k].tobytes() for k in found] == bits(want)
    assert counts[0] > 0 and counts[1] == 0


def test_code_is_saved_whatever_has_run_before(tmp_path: Path) -> None:
    """A plan of what looks alike needs no code any more."""
    computation, inputs = table()
    sizes = []
    for name in ("first", "second"):
        td.save(tmp_path / f"{name}.npz", computation, example=inputs)
        arrays, _ = load_arrays(tmp_path / f"{name}.npz")
        sizes.append(sorted(k for k in arrays if k.startswith("code.")))
        for _ in range(4):
            td.load_computation(tmp_path / f"{name}.npz")(*inputs)
    assert sizes[0] == sizes[1]


def test_code_that_was_changed_is_refused(tmp_path: Path) -> None:
    computation, inputs = updates()
    td.save(tmp_path / "m.npz", computation, example=inputs)
    arrays, facts = load_arrays(tmp_path / "m.npz")
    name = next(k for k in arrays if k.startswith("code."))
    arrays[name][100] ^= 1
    save_arrays(tmp_path / "m.npz", arrays, facts)
    assert td.load_computation(tmp_path / "m.npz")(1.0)
    with pytest.raises(td.ModelFileError, match=r"'code.*not as it was written"):
        td.load_computation(tmp_path / "m.npz", code=True)
    with pytest.raises(td.ArgumentError, match="only a computation"):
        td.save(tmp_path / "m.npz", {"a": np.ones(1)}, example=[1])


def test_what_no_file_can_say() -> None:
    x = td.placeholder((2,), name="x")
    with pytest.raises(td.ArgumentError, match="by names alone"):
        td.save("a.npz", td.computation({1: x + 1}, x))
    with pytest.raises(td.ModelFileError, match="keeps no metadata"):
        td.save("a.dynet", td.computation(x + td.param("w", (2,)), x))


def test_a_file_of_arrays_is_no_computation(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", {"w": np.ones(2)})
    with pytest.raises(td.ModelFileError, match="no graph;"):
        td.load_computation(tmp_path / "a.npz")


def test_a_placeholder_takes_no_memory() -> None:
    assert td.placeholder((1 << 40, 1 << 10)).shape == (1 << 40, 1 << 10)


SIGNATURE = "graph.signature"
WRONG: dict[str, tuple[str, str]] = {
    "treadle graph 1": ("treadle graph 2", "line 1"),
    "= Multiply(": ("= Import(", "no op is named 'Import'"),
    "Multiply() %0 %1": ("Multiply() %0 %9", "later than its reader"),
    "Multiply() %0 %1 ": ("Multiply() %0 ", "takes 2 operands"),
    "%2 = ": ("%7 = ", "node %2 is missing"),
    " : float32[2]\n": (" : float32[3]\n", "graph"),
    "return %": ("return %5 %", "later"),
    "return": ("%3 = argument : float32[2]\nreturn", "arguments come first"),
    "Multiply()": ("Multiply(a=1)", "no attribute 'a'"),
    "Multiply() ": ("Multiply(" + "(" * 50 + ")" * 50 + ") ", "unexpected"),
    "body 0 'computation'": ("body 1 'computation'", "begin body 0"),
    "%0 = argument : float32[2]": ("%0 = literal 0x00 : float32[2]", "8|take"),
}


@pytest.mark.parametrize("old", WRONG)
def test_wrong_graphs_are_refused_by_line(tmp_path: Path, old: str) -> None:
    new, message = WRONG[old]
    x, w = td.placeholder((2,), name="x"), td.param("w", (2,))
    path = tmp_path / "m.npz"
    td.save(path, td.computation(x * w, x))
    arrays, facts = load_arrays(path)
    assert old in facts["graph"]
    facts["graph"] = facts["graph"].replace(old, new, 1)
    save_arrays(path, arrays, facts)
    with pytest.raises(td.ModelFileError, match=message) as caught:
        td.load_computation(path)
    assert str(path) in str(caught.value) and "graph" in str(caught.value)


def test_wrong_signatures_are_refused(tmp_path: Path) -> None:
    x, w = td.placeholder((2,), name="x"), td.param("w", (2,))
    path = tmp_path / "m.npz"
    td.save(path, td.computation([x * w], x))
    arrays, facts = load_arrays(path)
    good = json.loads(facts[SIGNATURE])

    def changed(**more: Any) -> dict[str, Any]:
        first = good["variables"][0] | more
        return good | {"variables": [first, *good["variables"][1:]]}

    wrong: list[Any] = [
        [], {}, good | {"read": 9}, good | {"read": 1}, good | {"changed": [5]},
        good | {"placeholders": [1.5]}, good | {"placeholders": [1]},
        good | {"structure": ["set", None, []]}, good | {"structure": "leaf leaf"},
        good | {"structure": ["dict", ["a", "a"], ["leaf", "leaf"]]},
        good | {"structure": ["list", None, ["leaf", "leaf"]]},
        changed(shape=[-1]), changed(shape=[2**70]), changed(shape="2"),
        changed(dtype="object"), changed(kind="module"), changed(array="nothing"),
        changed(axes=["a", "b"]), changed(name=3), changed(more=1),
        changed(kind="parameter"), good | {"changed": [1]},
    ]  # fmt: skip
    for found in wrong:
        text = json.dumps(found)
        save_arrays(path, arrays, facts | {SIGNATURE: text})
        with pytest.raises(td.ModelFileError) as caught:
            td.load_computation(path)
        assert str(path) in str(caught.value)


@each("name", by_letter(sorted(set(registry.whole()) - ON_HOST)))
def test_a_variable_is_refused_for_a_value(name: str) -> None:
    """An op computes with its attributes: a variable there would run a graph."""
    try:
        sample = samples_of(registry[name])[0]
    except (NotImplementedError, IndexError):
        pytest.skip("it stands for something outside a graph")
    arrays = arrays_of(sample)
    own = [Tensor(Argument(k), (), constant_node(a).type) for k, a in enumerate(arrays)]
    y = sample.op(*own)
    several = isinstance(y.type, TupleType)
    text = define(Body("b", own, outputs_of(y) if several else [y]), [], lambda v: "c")
    variable = td.Variable(np.ones(()), name="v")
    for field in fields(registry[name]):  # type: ignore[arg-type]
        value = r"=(?:-?\d+|\w+|@\d+|'[^']*'|\([^()]*\))(?=[,)])"
        found = re.search(rf"\b{field.name}{value}", text)
        if found is None or str(field.type) == "Any":
            continue
        for wrong in ("$0", "($0,)"):
            changed = (
                f"{text[: found.start()]}{field.name}={wrong}{text[found.end() :]}"
            )
            with pytest.raises(ValueError, match=r"cannot be|unexpected"):
                parse(changed, [variable], {})


@each("name", by_letter(sorted(set(registry.whole()) - ON_HOST)))
def test_a_large_attribute_takes_no_memory(name: str) -> None:
    """An op checks its operands by arithmetic, whatever numbers a file holds."""
    try:
        samples = samples_of(registry[name])
    except NotImplementedError:
        pytest.skip("it stands for something outside a graph")
    tracemalloc.start()
    for sample in samples[:4]:
        arrays = arrays_of(sample)
        own = [
            Tensor(Argument(k), (), constant_node(a).type) for k, a in enumerate(arrays)
        ]
        y = sample.op(*own)
        several = isinstance(y.type, TupleType)
        text = define(
            Body("body", own, outputs_of(y) if several else [y]), [], lambda v: "c"
        )
        head = text.index("(") if "(" in text else len(text)
        for found in re.finditer(r"(?<=[=(, ])-?\d+(?=[,)])", text[head:]):
            for large in ("100000000000", "-100000000000", "9" * 18, "30000000"):
                begin, end = head + found.start(), head + found.end()
                with contextlib.suppress(ValueError):
                    parse(text[:begin] + large + text[end:], [], {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
