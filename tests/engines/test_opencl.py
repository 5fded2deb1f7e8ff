"""The driver of OpenCL devices: what it builds, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines.gpus import GPUS
from treadle.base.dtypes import int32
from treadle.base.errors import RunError
from treadle.engines.gpu.devices import APIS
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.moves import RowMove


class Building:
    """An API that counts the programs which are built."""

    def __init__(self, api: Any) -> None:
        self._api, self.built = api, 0

    def __getattr__(self, name: str) -> Any:
        self.built += name == "Program"
        return getattr(self._api, name)


@pytest.mark.parametrize("name", GPUS[:1])
def test_kernels_are_built_together(name: str) -> None:
    api = APIS[name]
    driver: Any = api.driver(api.find()[0][0])
    driver.cl = counted = Building(driver.cl)
    provide("building", lambda number: driver)
    with td.options(engine="building"):
        x = td.asarray(np.arange(600, dtype=np.float32).reshape(20, 30))
        y = td.softmax(td.exp(x @ x.T * 1e-6) - x.sum(), axis=0).sum()
        assert td.lower(y).steps == 3
        assert float(y) == pytest.approx(20)
        assert counted.built == 1
        no_code = replace(
            RowMove("copy", int32).work(),
            computes="nonsense",
            write=lambda b: b.emit("nonsense;"),
        )
        wrong = driver.compile(no_code)
        found = td.cumulative_sum(td.sin(x), 0).mean()  # others are built beside it
        want = np.sin(np.arange(600.0)).reshape(20, 30).cumsum(0).mean()
        assert float(found) == pytest.approx(want, rel=1e-4)
    with pytest.raises(RunError, match="OpenCL device refuses"):
        driver.submit([driver.bind(wrong, 1, [], driver.numbers(no_code, []))])
