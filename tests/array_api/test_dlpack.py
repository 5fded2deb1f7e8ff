"""DLPack: memory that is shared where nothing can be hurt, and copied elsewhere."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import treadle as td

N = 3000


class Consumer:
    """Reads a capsule as a library that heeds no read-only flag may."""

    def __init__(self, x: Any, **options: Any) -> None:
        class Once:
            def __dlpack__(self, **_: Any) -> Any:
                return x.__dlpack__(**options)

            def __dlpack_device__(self) -> Any:
                return x.__dlpack_device__()

        self.seen = np.from_dlpack(Once())

    def write(self, value: float) -> None:
        ctypes.c_float.from_address(self.seen.ctypes.data).value = value


def test_a_tensors_memory_is_handed_out_and_flagged() -> None:
    x = td.asarray(np.ones(N, np.float32))
    seen = np.from_dlpack(x)
    assert seen.ctypes.data == x.numpy().ctypes.data
    assert not seen.flags.writeable
    assert x.__dlpack_device__() == (1, 0)
    y = x * 2
    assert np.from_dlpack(y).ctypes.data == y.numpy().ctypes.data


def test_who_knows_no_flag_gets_a_copy() -> None:
    x = td.asarray(np.ones(N, np.float32))
    for version in (None, (0, 8)):
        other = Consumer(x, max_version=version)
        assert other.seen.ctypes.data != x.numpy().ctypes.data
    with pytest.raises(BufferError, match="knows no read-only flag"):
        x.__dlpack__(copy=False)
    forced = Consumer(x, max_version=(1, 0), copy=True)
    assert forced.seen.ctypes.data != x.numpy().ctypes.data


@pytest.mark.parametrize("kind", [td.Variable, td.Parameter])
def test_no_write_reaches_a_variable(kind: Any) -> None:
    v = kind(np.ones(N, np.float32))
    held = v.node()
    same = v + 0  # which may be the very array
    same.numpy()
    for x in (v, held, same, v[:10], td.reshape(v, (30, 100))):
        Consumer(x, max_version=(1, 0)).write(7.0)
        assert v.numpy()[0] == 1.0
    with pytest.raises(BufferError):
        v.__dlpack__(max_version=(1, 0), copy=False)


def test_what_was_handed_out_is_copied_where_it_is_assigned() -> None:
    x = td.asarray(np.ones(N, np.float32))
    consumer = Consumer(x, max_version=(1, 0))
    assert consumer.seen.ctypes.data == x.numpy().ctypes.data
    v, w = td.Variable(np.zeros(N, np.float32)), td.Variable(x)
    v.assign(x)
    v.numpy()
    consumer.write(7.0)
    assert v.numpy()[0] == 1.0 and w.numpy()[0] == 1.0


def test_arrays_come_in_without_a_copy() -> None:
    for dtype in ("float32", "int8", "uint64", "bool", "complex64", "float16"):
        array = np.ones((2, 3)).astype(dtype)
        x = td.from_dlpack(array)
        assert x.numpy().ctypes.data == array.ctypes.data and x.dtype == array.dtype
    frozen = np.ones(3)
    frozen.flags.writeable = False
    assert td.from_dlpack(frozen).numpy().ctypes.data == frozen.ctypes.data
    assert td.from_dlpack(np.ones(3), copy=True).tolist() == [1.0] * 3
    across = np.ones((2, 3)).T
    assert td.from_dlpack(across).shape == (3, 2)
    x = td.ones(2)
    assert td.from_dlpack(x) is x


def test_what_came_in_outlives_where_it_came_from() -> None:
    x = td.from_dlpack(np.arange(5.0))
    assert (x * 1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_mistakes_are_refused() -> None:
    class Elsewhere:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    for error, call, said in (
        (td.ArgumentError, lambda: td.from_dlpack([1.0]), "does not speak DLPack"),
        (td.ArgumentError, lambda: td.from_dlpack(Elsewhere()), "reads no memory"),
        (
            td.ArgumentError,
            lambda: td.from_dlpack(np.ones((2, 3)).T, copy=False),
            "row-major",
        ),
        (BufferError, lambda: td.ones(2).__dlpack__(dl_device=(2, 0)), "on the device"),
        (
            td.DTypeError,
            lambda: td.ones(2, "bfloat16").__dlpack__(),
            "exports no bfloat16",
        ),
    ):
        with pytest.raises(error, match=said):
            call()


def test_steps_go_on_while_memory_is_handed_out() -> None:
    held = td.asarray(np.arange(3.0)).__dlpack__(max_version=(1, 0))
    v = td.Parameter([1.0, 2.0])
    td.optim.SGD(lr=0.5).step((v * v).sum())
    assert v.tolist() == [0.0, 0.0] and held is not None
