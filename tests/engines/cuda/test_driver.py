"""The driver of CUDA on an emulated card: values, memory, errors, cache."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.cuda.libcuda import Emulated
from tests.engines.cuda.works import ITEMS, card, elementwise, ran, written
from treadle.base.errors import OutOfMemoryError, RunError
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.gpu.cuda.driver import CudaDriver, devices
from treadle.engines.gpu.cuda.library import Library, open_library, started
from treadle.engines.gpu.cuda.ptx import architecture
from treadle.engines.native.codegen.builder import F32, Value
from treadle.loops.kernel import KernelArgument

Array = np.ndarray[Any, Any]
COUNT = 1000
GROUPS = -(-COUNT // ITEMS)


def more(b: DeviceBuilder, x: Value, y: Value) -> Value:
    return b.fadd(b.fmul(x, y), b.constant(x.type, 1))


def floats(seed: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(seed).normal(size=COUNT).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_product_and_a_sum_have_the_bits_of_two_operations(dtype: str) -> None:
    _, driver = card()
    x, y = floats(1, dtype), floats(2, dtype)
    work = elementwise(f"more_{dtype}", more, dtype)
    found = ran(driver, work, GROUPS, [x, y, np.empty_like(x)], COUNT)[2]
    assert found.tobytes() == (x * y + np.ones((), dtype)).tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_remainder_is_exact(dtype: str) -> None:
    random = np.random.default_rng(3)
    size = np.dtype(dtype).itemsize
    bits = random.integers(0, 1 << 8 * size, (2, COUNT), dtype=np.uint64)
    x, y = bits.astype(f"u{size}").view(dtype)
    x[:100], y[:100] = random.uniform(-99, 99, 100), random.uniform(-3, 3, 100)
    least = np.finfo(dtype).smallest_subnormal
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1, least, 5 * least, 1.5]
    pairs = np.array(np.meshgrid(special, special), dtype).reshape(2, -1)
    x[100 : 100 + pairs.shape[1]], y[100 : 100 + pairs.shape[1]] = pairs
    _, driver = card()
    work = elementwise(f"rest_{dtype}", lambda b, x, y: b.frem(x, y), dtype)
    found = ran(driver, work, GROUPS, [x, y, np.empty_like(x)], COUNT)[2]
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    np.testing.assert_array_equal(found, want)
    real = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found)[real], np.signbit(want)[real])


def test_items_share_memory_between_barriers() -> None:
    def body(b: DeviceBuilder) -> None:
        there, item = b.shared(F32, ITEMS), b.item()
        b.store(
            b.load(F32, b.offset(b.buffer(0), item, F32)), b.offset(there, item, F32)
        )
        b.barrier()
        other = b.sub(b.i64(ITEMS - 1), item)
        x = b.load(F32, b.offset(there, other, F32))
        b.store(x, b.offset(b.buffer(1), item, F32))

    x = np.arange(ITEMS, dtype="f4")
    argument = KernelArgument(np.dtype("f4"), True)
    work = written("reversed", (argument, argument), body, slots=())
    _, driver = card()
    assert ran(driver, work, 1, [x, x])[1].tolist() == x[::-1].tolist()


def test_copies_and_fills_within_the_device_keep_their_order() -> None:
    _, driver = card()
    a, b = driver.allocate(64), driver.allocate(64)
    driver.fill((a, 0), 64, 7)
    driver.copy((a, 16), (b, 0), 48)
    driver.fill((a, 0), 64, 0)
    found = np.empty(48, np.uint8)
    driver.download(b, 0, found)
    assert set(found.tolist()) == {7}


# -- errors ----------------------------------------------------------------------------


def test_without_a_device_one_sentence_says_so() -> None:
    with pytest.raises(RunError) as raised:
        started(Emulated(devices=0))
    assert "there is no CUDA device here" in str(raised.value)
    assert "no CUDA-capable device is detected" in str(raised.value)


def test_without_the_library_one_sentence_says_so(monkeypatch: Any) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(RunError, match="there is no CUDA device here: no"):
        open_library()


def test_an_older_driver_without_a_function_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(RunError, match=r"driver is too old: .*cuInit"):
        open_library()


def test_out_of_memory_tells_what_is_wanted_and_free() -> None:
    _, driver = card(1 << 20)
    memory = driver.allocate(1 << 19)
    with pytest.raises(OutOfMemoryError, match=r"Emulated device has no 700,000 bytes"):
        driver.allocate(700_000)
    driver.free(memory)
    driver.free(driver.allocate(700_000))  # nothing was lost


def test_a_kernel_outside_of_its_memory_loses_the_device_once_and_for_all() -> None:
    functions, driver = card()
    work = elementwise("more_f4", more, "f4")
    memory = driver.allocate(4 * COUNT - 4)
    numbers = driver.numbers(work, [COUNT])
    driver.submit(
        [driver.bind(driver.compile(work), GROUPS, [(memory, 0)] * 3, numbers)]
    )
    with pytest.raises(RunError, match=r"device was lost: .*illegal memory access"):
        driver.download(memory, 0, np.empty(1, "f4"))
    assert "no allocation" in functions.fault
    calls = sum(functions.calls.values())
    with pytest.raises(RunError, match="device was lost"):
        driver.allocate(1)
    driver.free(memory)
    assert sum(functions.calls.values()) == calls, "nothing is asked of a lost device"


def test_what_the_driver_refuses_is_named_and_the_device_goes_on() -> None:
    functions, driver = card()
    functions.refuse("cuMemcpyHtoD_v2", 1)
    memory = driver.allocate(64)
    with pytest.raises(RunError, match=r"cuMemcpyHtoD_v2 failed .*invalid argument"):
        driver.upload(np.zeros(16, "f4"), memory, 0)
    functions.refusals.clear()
    driver.upload(np.zeros(16, "f4"), memory, 0)


def test_a_refused_kernel_has_the_assemblers_words(monkeypatch: Any) -> None:
    _, driver = card()
    name = "treadle.engines.gpu.cuda.modules.ptx_of"
    monkeypatch.setattr(name, lambda text, target: "nothing")
    monkeypatch.setenv("TREADLE_CACHE", "0")
    with pytest.raises(RunError, match="no entry"):
        driver.compile(elementwise("more_f4", more, "f4"))


def test_an_old_device_is_refused() -> None:
    with pytest.raises(
        RunError, match=r"need compute capability 7\.5, the device has 6\.1"
    ):
        architecture((6, 1))


def test_devices_are_listed_by_name() -> None:
    assert devices(started(Emulated(devices=2))) == [
        (0, "Emulated device"),
        (1, "Emulated device"),
    ]


# -- modules ---------------------------------------------------------------------------


def test_a_kernel_is_translated_once_and_then_read(
    monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TREADLE_CACHE", raising=False)
    work = elementwise("more_f4", more, "f4")
    links = []
    for _ in range(2):
        functions, driver = card()
        first, second = driver.compile(work), driver.compile(work)
        assert first is second
        links.append(functions.calls.get("cuLinkComplete", 0))
    assert links == [1, 0]
    monkeypatch.setattr(
        Emulated, "_cuDriverGetVersion", lambda self, v: setattr(v._obj, "value", 2)
    )
    functions = Emulated()
    CudaDriver(started(functions)).compile(work)
    assert functions.calls["cuLinkComplete"] == 1, "another driver translates anew"


def test_a_module_is_unloaded_when_nobody_has_its_kernel() -> None:
    functions, driver = card()
    entry = driver.compile(elementwise("more_f4", more, "f4"))
    assert len(functions.modules) == 1
    del entry
    gc.collect()
    kept = driver.compile(elementwise("less_f4", lambda b, x, y: b.fsub(x, y), "f4"))
    assert kept is not None
    assert len(functions.modules) == 1


def test_a_library_tells_errors_it_has_no_words_for() -> None:
    assert Library(Emulated()).said(12345) == "error 12345"
