"""Bodies of loops: what they are known by."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import treadle as td
from treadle.graph import body


def _loop(f: Any, start: Any) -> Any:
    return td.scan(lambda y, _: (f(y), y), start, length=3)[0]


def _branch(f: Any, start: Any) -> Any:
    return td.cond(start.sum() > 0.0, f, lambda y: y, start)


def _while(f: Any, start: Any) -> Any:
    return td.while_loop(lambda y: y.sum() < 40.0, f, start)


@pytest.mark.parametrize("outer", [_loop, _branch, _while])
def test_the_first_of_a_process_may_hold_another_of_its_kind(outer: Any) -> None:
    # What was noted of a class of op asked its first one's body, which asked for it.
    start = td.asarray(np.ones(2))
    with patch.dict(body._kinds, clear=True):
        found = outer(lambda y: outer(lambda z: z + 1.0, y) * 2.0, start)
        assert np.all(np.asarray(found) > 1.0)
