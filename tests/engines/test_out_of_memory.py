"""Out of memory: an error that names bytes, op and line, and a session that goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import OutOfMemoryError

HUGE = 2**40


def x() -> td.Tensor:
    return td.asarray(np.ones(1, np.float32))


CASES: dict[str, Callable[[], Any]] = {
    "zeros": lambda: td.zeros((HUGE, HUGE)),
    "ones": lambda: td.ones(2**50),
    "full": lambda: td.full(2**50, 3.0),
    "arange": lambda: td.arange(2**50),
    "eye": lambda: td.eye(2**25),
    "a result": lambda: td.broadcast_to(x(), (HUGE, HUGE)).numpy(),
    "a result of a kernel": lambda: (td.broadcast_to(x(), (2**50,)) * 2).numpy(),
    "a product": lambda: (td.zeros((2**24, 1)) @ td.zeros((1, 2**24))).numpy(),
    "an intermediate": lambda: td.sort(td.tile(x(), (2**48,)) * 2)[:1].numpy(),
    "a draw": lambda: td.random.normal((2**50,)).numpy(),
    "a function": lambda: td.function(lambda a: td.tile(a, (2**50,)) * 2.0)(
        x()
    ).numpy(),
    "a computation": lambda: td.computation(td.tile(x(), (2**50,)) * 2.0)(),
    "a parameter": lambda: td.param("w", shape=(HUGE, HUGE), init=0.0),
    "a layer": lambda: td.nn.Linear(2**25, 2**25),
    "an initializer": lambda: td.nn.init.zeros((2**50,)),
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_what_no_memory_holds_is_an_error_that_tells(name: str, engine: str) -> None:
    with td.options(engine=engine), pytest.raises(OutOfMemoryError) as caught:
        CASES[name]()
    assert isinstance(caught.value, MemoryError)
    text = str(caught.value)
    assert "test_out_of_memory.py:" in text and any(c.isdigit() for c in text)
    assert float((x() * 3.0).numpy()[0]) == 3.0


def test_the_op_is_that_whose_result_it_was() -> None:
    big = td.sqrt(td.random.uniform((2**50,)))
    small = td.sum(x() * 2.0)
    with pytest.raises(OutOfMemoryError, match=r"(?s)sqrt.*: .*at: .*big = td.sqrt"):
        td.evaluate([small, big])


SCARCE = """
import resource, sys
import numpy as np
import treadle as td
def value(k):
    y = td.asarray(np.ones(3 + k, np.float32))
    for j in range(12):
        f = [td.sin, td.cos, td.exp, td.tanh, td.sqrt, td.abs][(k * 7 + j * j) % 6]
        y = f(y) * (1.0 + k)
    return y.numpy()
first = value(0)
now = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (int(sys.argv[1]) << 10), -1))
for k in range(1, 12):
    try:
        value(k)
    except MemoryError as error:
        assert isinstance(error, td.TreadleError) and "bytes asked" in str(error)
    assert (value(0) == first).all()
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert np.isfinite(value(20)).all()
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
@pytest.mark.parametrize("kilobytes", [0, 300, 20_000])
def test_compiling_without_memory_raises_and_the_session_goes_on(
    kilobytes: int,
) -> None:
    command = [sys.executable, "-c", SCARCE, str(kilobytes)]
    env = {**os.environ, "TREADLE_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    assert (done.stdout, done.returncode) == ("right\n", 0), done.stderr
