"""The GPU engine without a device: what is copied, how long it lives.

On "device" each op runs by NumPy between two copies; on "compiled" the kernels of CUDA
run on this processor, and values stay where they are.
"""

from __future__ import annotations

import copy
import gc
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines.cuda import host
from tests.fuzz import loops
from treadle.base.errors import RunError, UnboundError
from treadle.base.types import Type
from treadle.engines.base import engine, provide_engine
from treadle.engines.gpu.engine import Gpu, provide
from treadle.engines.gpu.host import HostDriver
from treadle.engines.gpu.memory import GRAIN, DeviceBlocks, GpuValue, rounded
from treadle.graph.operators import functions
from treadle.graph.resident import Resident
from treadle.io.checkpoint import load_checkpoint, save_checkpoint
from treadle.io.tensors import load_arrays, save_arrays
from treadle.runtime.evaluate import run

SMALL = 64 << 10
provide("small", lambda number: HostDriver(SMALL))
provide("compiled", lambda number: host.HostDriver())


def device(name: str = "device") -> Gpu:
    found = engine(name)
    assert isinstance(found, Gpu)
    return found


def memory(name: str = "device") -> DeviceBlocks:
    gc.collect()
    return device(name).store


@contextmanager
def copies(into: int, out: int, name: str = "device") -> Iterator[None]:
    """The block copies that many values in and out."""
    before = memory(name).counts
    yield
    after = memory(name).counts - before
    assert (after.copies_in, after.copies_out) == (into, out)


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
    with td.options(engine="device"):
        yield


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


# -- copies ------------------------------------------------------------------------


def test_a_value_comes_home_when_it_is_looked_at_and_once() -> None:
    x = td.asarray(ones(4))
    with copies(3, 1):  # x, and what each op makes, of which one is read
        y = td.exp(x) * x
        functions.settled(y)
    assert isinstance(y.stored, Resident)
    assert (y.stored.shape, y.stored.dtype, y.stored.nbytes) == ((4,), np.float32, 16)
    with copies(0, 1):
        first = y.numpy()
        assert y.numpy() is first and repr(y)
    assert not first.flags.writeable
    with copies(0, 0):
        assert y.numpy() is first and np.shares_memory(np.asarray(y), first)


def test_a_training_loop_copies_its_feeds_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    batches = rng.standard_normal((6, 8, 20)).astype(np.float32)
    with td.options(engine="compiled"):
        model = td.nn.Linear(20, 16)
        optimizer = td.optim.Adam(lr=0.01)

        def step(k: int) -> Any:
            return optimizer.step((model(td.asarray(batches[k])) ** 2.0).mean())

        step(0), step(1)
        live, before = memory("compiled").live, memory("compiled").counts
        for k in range(2, 6):
            loss = step(k)
        done = memory("compiled").counts - before
        assert (done.copies_in, done.copies_out) == (4, 0)
        assert done.bytes_in == 4 * batches[0].nbytes
        assert abs(memory("compiled").live - live) <= 2 * GRAIN  # the loss is held
        with copies(0, 1, "compiled"):
            assert float(loss) > 0


def test_a_computation_keeps_its_state_there() -> None:
    w, x = td.Variable(ones(6)), td.placeholder((6,))
    w.assign(w + x)
    total = td.computation(td.sum(w), x)
    assert [float(total(ones(6))) for _ in range(4)] == [12.0, 18.0, 24.0, 30.0]
    assert isinstance(w.committed.stored, GpuValue)


def test_loops_and_branches_run_there_too() -> None:
    rows, seed = td.asarray(ones(7, 3)), td.asarray(np.zeros(3, np.float32))
    shift = ones(3)

    def body(carry: Any, x: Any) -> tuple[Any, Any]:
        carry = td.cond(td.sum(carry) < 9.0, lambda: carry + x * shift, lambda: carry)
        return carry, carry

    last, _ = td.scan(body, seed, rows)
    assert last.tolist() == [3.0, 3.0, 3.0]


def test_nothing_of_the_host_is_read_in_place_and_nothing_shared() -> None:
    array = ones(3, 3)
    x = td.asarray(array, copy=False)
    y = functions.settled(td.permute_dims(x, None))
    value = y.stored
    assert isinstance(value, GpuValue)
    with pytest.raises(TypeError):
        memoryview(value)  # type: ignore[arg-type]
    assert not hasattr(value, "__array_interface__") and not hasattr(value, "data")
    assert not np.shares_memory(value.numpy(), array)
    assert value.numpy().base is None


# -- how long values live ------------------------------------------------------------


def test_memory_comes_back() -> None:
    start = memory().live
    x = td.asarray(ones(1000))
    y = td.tanh(x) * 1.5
    functions.settled(y)
    value = y.numpy()
    assert memory().live > start
    del x, y
    assert memory().live <= start + GRAIN  # the number is a constant
    assert value.tolist() == (np.tanh(ones(1000)) * np.float32(1.5)).tolist()


def test_a_step_frees_what_it_used() -> None:
    p = td.param(init=ones(64, 64))
    optimizer = td.optim.Adam(lr=0.1)
    seen = []
    for _ in range(6):
        optimizer.step(td.sum(td.sin(p) * p))
        seen.append(memory().live)
    assert max(seen[1:]) - min(seen[1:]) <= 2 * GRAIN


def test_the_next_version_is_written_over_one_that_nobody_sees() -> None:
    with td.options(engine="compiled"):
        p = td.param(init=ones(1000))
        optimizer = td.optim.SGD(lr=0.25)

        def step() -> Any:
            optimizer.step(td.sum(p * p))
            value = p.committed.stored
            assert isinstance(value, GpuValue)
            return value.place[0]

        step()
        place = step()
        assert step() is place
        seen = p.numpy()
        was = seen.copy()
        assert step() is place and np.array_equal(seen, was)  # a copy is a copy
        node = p * 2.0
        assert step() is not place
        assert np.array_equal(node.numpy(), was)  # 0.5 of it, twice


def test_versions_that_read_each_other_are_not_overwritten_too_early() -> None:
    def train(name: str) -> list[Any]:
        with td.options(engine=name, dtype="float64"):
            a, b = td.param(init=[1.0, 2.0]), td.param(init=[3.0, 5.0])
            optimizer = td.optim.SGD(lr=0.125)
            for _ in range(5):
                optimizer.step(td.sum(a * a * b + td.sin(b)))
            return [a.tolist(), b.tolist()]

    assert train("device") == train("reference")


def test_a_version_that_another_node_passes_on_is_not_overwritten() -> None:
    def train(name: str, same: Callable[[Any], Any]) -> list[Any]:
        with td.options(engine=name):
            a, b, c = (td.Variable(k * ones(20)) for k in (1.0, 2.0, 3.0))
            for v in (a, b, c):
                v += 1.0
            functions.settled(c)
            with td.explicit_updates():
                old = same(a)
                updates = [b.assign(old), a.assign(a * 2.0), c.assign(old * 3.0)]
            run(updates, spent=updates)
            return [v.tolist() for v in (a, b, c)]

    for same in (td.stop_gradient, lambda x: x.node()):
        assert train("device", same) == train("reference", same)


def test_what_another_graph_holds_is_kept() -> None:
    p = td.param(init=ones(50))
    optimizer = td.optim.SGD(lr=0.25)
    optimizer.step(td.sum(p * p))
    other = td.sum(p * p)
    for _ in range(2):
        optimizer.step(td.sum(p * p))
    assert float(other) == 50 * 0.25
    assert td.grad(other, [p])[0].tolist() == [1.0] * 50


# -- with other engines, and at the rim ------------------------------------------------


@pytest.mark.parametrize("other", ["native", "reference", "small"])
def test_a_graph_goes_on_elsewhere_and_comes_back(other: str) -> None:
    x = td.asarray(ones(10))
    y = td.exp(x)
    functions.settled(y)
    with copies(0, 1), td.options(engine=other):
        z = y * 2.0 + y
        functions.settled(z)
    with copies(2, 1):  # z, and the sum
        assert np.allclose((z + y).numpy(), 4 * np.e)
    with td.options(engine=other):
        assert np.allclose((z - y).numpy(), 2 * np.e)


def test_native_does_not_write_into_a_copy_in_a_users_hands() -> None:
    p = td.param(init=ones(100))
    optimizer = td.optim.SGD(lr=0.25)
    optimizer.step(td.sum(p * p))
    seen = p.numpy()
    with td.options(engine="native"):
        for k in (0.25, 0.125):
            optimizer.step(td.sum(p * p))
            assert p.tolist() == [k] * 100
    assert seen.tolist() == [0.5] * 100
    optimizer.step(td.sum(p * p))
    assert p.tolist() == [0.0625] * 100


def test_an_array_written_anew_is_copied_anew() -> None:
    p = td.param(init=ones(100))
    optimizer = td.optim.SGD(lr=0.25)
    for _ in range(3):
        with td.options(engine="native"):
            optimizer.step(td.sum(p * p))
        assert (p * 1.0).tolist() == p.tolist()
    assert p.tolist() == [0.125] * 100


def test_variables_come_and_go() -> None:
    v = td.Variable(ones(8), name="v")
    v += 1.0
    v[2] = 7.0
    functions.settled(v)
    assert isinstance(v.committed.stored, Resident)
    with copies(0, 0):
        twin = copy.deepcopy(v)
    with copies(0, 1):
        assert repr(v).count("7.") == 1 and float(v.numpy()[2]) == 7.0
        assert twin.tolist() == v.tolist()
    twin.assign(v)
    v -= 1.0
    assert v.tolist()[2] == 6.0 and twin.tolist()[2] == 7.0
    assert td.verify(v * 2.0) == (True, "")
    with td.options(check=True, eager=True):
        assert (v * 2.0).tolist()[2] == 12.0


def model_and_optimizer() -> tuple[Any, Any]:
    with td.options(seed=1):
        return td.nn.Linear(6, 3), td.optim.Adam(lr=0.1)


def train(model: Any, optimizer: Any, steps: int) -> None:
    for k in range(steps):
        optimizer.step(td.sum(td.tanh(model(td.asarray((k + 1) * ones(2, 6))))))


def test_a_run_is_saved_and_goes_on(tmp_path: Path) -> None:
    model, optimizer = model_and_optimizer()
    train(model, optimizer, 3)
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    save_checkpoint(tmp_path, 3, parts, {})
    save_arrays(tmp_path / "model.npz", model.state_dict())
    train(model, optimizer, 4)
    point = load_checkpoint(tmp_path)
    assert point is not None
    again, other = model_and_optimizer()
    again.load_state_dict(point.parts["model"])
    other.load_state_dict(point.parts["optimizer"])
    train(again, other, 4)
    assert again.weight.numpy().tobytes() == model.weight.numpy().tobytes()
    loaded, _ = load_arrays(tmp_path / "model.npz")
    assert np.array_equal(loaded["weight"], parts["model"]["weight"])


def test_the_same_values_as_the_reference() -> None:
    def result(name: str) -> bytes:
        with td.options(engine=name):
            model, optimizer = model_and_optimizer()
            train(model, optimizer, 5)
            return bytes(model.weight.numpy().tobytes())

    assert result("device") == result("reference")


# -- errors ------------------------------------------------------------------------


def test_a_full_memory_is_told_and_nothing_is_changed() -> None:
    with td.options(engine="small"):
        p = td.param(init=ones(1000))
        seen = td.Variable(ones(3))
        optimizer = td.optim.SGD(lr=0.25)
        optimizer.step(td.sum(p * p))
        live = memory("small").live
        wide = p + td.asarray(ones(8, 1))
        seen.assign(seen + td.sum(wide * wide, 0)[:3])
        with pytest.raises(RunError) as caught:
            optimizer.step(td.sum(wide * p))
        told = str(caught.value)
        assert "the device's memory is full: 40,960 bytes" in told and "in use" in told
        assert "operands: float32[8, 1000]" in told and "test_device.py" in told
        del wide
        assert memory("small").live <= live + 4 * GRAIN  # constants, copies of leaves
        assert p.tolist() == [0.5] * 1000 and seen.tolist() == [1.0] * 3
        optimizer.step(td.sum(p * p))
        assert p.tolist() == [0.25] * 1000
        with pytest.raises(RunError, match=r"full(.|\n)*operands: float32\[20000\]"):
            functions.settled(td.asarray(ones(20000)) + 1.0)


def test_what_the_host_has_makes_room() -> None:
    with td.options(engine="small"):
        leaves = [td.asarray(k * ones(3000)) for k in range(20)]
        sums = [float(td.sum(x)) for x in leaves]
        assert sums == [3000.0 * k for k in range(20)]
        assert float(td.sum(leaves[0] + leaves[19])) == 57000.0


def test_a_failing_op_leaves_nothing_behind() -> None:
    table = td.asarray(ones(5, 100))
    lives = []
    for _ in range(3):  # the constants of the program stay
        with pytest.raises(RunError, match="id 7 is out of range"):
            (td.embedding(table * 3.0, [0, 7]) * 2.0).numpy()
        lives.append(memory().live)
    assert lives[2] == lives[1] == lives[0]


def test_what_is_not_bound_is_told() -> None:
    with pytest.raises(UnboundError):
        (td.placeholder((2,), name="x") + 1.0).numpy()


# -- the memory itself -----------------------------------------------------------------


def test_blocks_are_found_again() -> None:
    store = DeviceBlocks(HostDriver(1 << 20), lambda: None)
    rng = random.Random(0)
    alive: dict[int, tuple[GpuValue, Any]] = {}
    for k in range(2000):
        if alive and rng.random() < 0.5:
            value, array = alive.pop(rng.choice(list(alive)))
            assert np.array_equal(store.copy_out(value), array)
            continue
        array = np.full(rng.randrange(300), k, np.int32)
        alive[k] = store.copy_in(array, Type(array.shape, array.dtype)), array
        if len(alive) > 40:
            alive.pop(next(iter(alive)))
    value = None  # type: ignore[assignment]
    places = {id(v.place[0]) for v, _ in alive.values()}
    assert len(places) == len(alive)
    assert store.live == sum(rounded(v.nbytes) for v, _ in alive.values())
    alive.clear()
    assert store.live == 0
    whole = store.take(1 << 20)  # what lay idle went back
    assert whole.bytes == 1 << 20


def test_threads_share_the_queue() -> None:
    results: dict[int, float] = {}

    def work(k: int) -> None:
        with td.options(engine="device"):
            x = td.asarray(k * ones(50))
            for _ in range(20):
                x = td.tanh(x) + k
            results[k] = float(td.sum(x))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with td.options(engine="reference"):
        for k in range(6):
            x = td.asarray(k * ones(50))
            for _ in range(20):
                x = td.tanh(x) + k
            assert results[k] == float(td.sum(x))


def test_it_is_loaded_when_it_is_asked_for() -> None:
    code = (
        "import sys, treadle as td; name = 'treadle.engines.gpu.engine'\n"
        "assert name not in sys.modules; y = td.constant(1.0) + 1.0\n"
        "with td.options(engine='device'): assert float(y) == 2.0\n"
        "assert name in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nobody_else_knows_the_engines_of_devices() -> None:
    root = Path(td.__file__).parent
    folder = root / "engines" / "gpu"
    others = [x for x in root.rglob("*.py") if folder not in x.parents]
    known = sorted(x.name for x in others if "engines.gpu" in x.read_text())
    assert known == ["base.py", "info.py"]  # the tables of engines and of devices


def test_an_engine_takes_the_place_of_devices_of_its_name() -> None:
    provide("placed", lambda number: HostDriver(SMALL))
    first = engine("placed")
    provide_engine("placed", lambda: Gpu(HostDriver(SMALL)))
    assert engine("placed") is not first
    with pytest.raises(td.OptionError):
        engine("placed:1")


@pytest.mark.parametrize("seed", range(5000, 5012))
def test_loops_of_any_form_mean_the_same(seed: int) -> None:
    assert not loops.differing(seed, seed % 3, "device")


def test_a_workspace_that_is_too_small_tells_what_fills_it() -> None:
    with td.options(engine="device", workspace=1000):
        x = td.zeros((64, 256)) @ td.zeros((256, 256))
        with pytest.raises(td.WorkspaceError, match="it holds float32") as caught:
            td.cumulative_sum(x, axis=0).sum().numpy()
    with td.options(engine="device", workspace=caught.value.needed):
        x = td.zeros((64, 256)) @ td.zeros((256, 256))
        assert float(td.cumulative_sum(x, axis=0).sum()) == 0.0
