"""What a user's call raises: a TreadleError, or what Python and his own code say."""

from __future__ import annotations

import inspect
import os
import pickle
import traceback
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base import boundary
from treadle.base.boundary import HANDS_ON, guarded
from treadle.base.types import as_integer, as_integers, as_items

NO_WHOLE: list[Any] = [
    None, 2.0, 1j, "1", b"1", True, np.True_, np.float32(1.0), object(), int,
    np.array([1, 2]), np.array("1"), np.array([object()]), slice(None),
]  # fmt: skip


def test_what_inner_code_raises_is_refused_with_the_call() -> None:
    with pytest.raises(td.CallError) as caught:
        td.layer_norm([1.0], eps="text")
    told = str(caught.value)
    assert told.startswith("layer_norm: does not take ([1.0], eps='text')")
    assert "test_boundary.py" in told
    assert "hint: it is called as layer_norm(x, weight=None" in told
    assert isinstance(caught.value, (TypeError, ValueError))
    with pytest.raises(td.CallError, match=r"Dropout: does not take \('x'\)"):
        td.nn.Dropout("x")
    with pytest.raises(td.CallError, match=r"Adam.load_state_dict: does not take"):
        td.optim.Adam().load_state_dict(1.5)


def test_other_errors_stay_what_they_are() -> None:
    def own(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        td.map(own, td.ones(3))
    with pytest.raises(TypeError, match=r"missing 1 required positional") as caught:
        td.stack()
    assert not isinstance(caught.value, td.TreadleError)
    with pytest.raises(td.ShapeError) as other:
        td.reshape(td.ones(3), 2)
    assert type(other.value) is td.ShapeError

    class Net(td.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.width = {}["width"]

    with pytest.raises(KeyError, match="width"):
        Net()


def test_guarded_functions_are_still_themselves() -> None:
    assert td.argsort.__code__ is HANDS_ON
    assert pickle.loads(pickle.dumps(td.argsort)) is td.argsort
    assert list(inspect.signature(td.argsort).parameters) == [
        "x",
        "axis",
        "descending",
        "stable",
    ]
    assert guarded(len)([1]) == 1


@pytest.mark.parametrize("value", NO_WHOLE, ids=lambda x: type(x).__name__)
def test_one_rule_tells_whole_numbers(value: Any) -> None:
    assert as_integer(value) is None
    one = td.ones((2, 3))
    calls = [
        lambda: td.sum(one, value) if value is not None else td.softmax(one, value),
        lambda: td.expand_dims(one, value),
        lambda: td.zeros((2, value)),
        lambda: td.reshape(one, (3, value)),
        lambda: td.unflatten(one, 1, (3, value)),
        lambda: td.max_pool2d(td.ones((1, 1, 4, 4)), (2, value)),
        lambda: td.nn.Linear(3, value),
        lambda: one.transpose(0, value),
        lambda: (
            td.var(one, correction=value).numpy()
            if not isinstance(value, (bool, float, np.bool_, np.floating))
            else td.expand_dims(one, value)
        ),
    ]
    for call in calls:
        with pytest.raises(td.TreadleError):
            call()


def test_whole_numbers_of_every_kind_are_taken() -> None:
    for value in (2, np.int8(2), np.uint64(2), np.array(2), td.asarray(2)):
        assert as_integer(value) == 2
        assert as_integers(value) == (2,) == as_integers([value])
        assert td.zeros(value).shape == (2,)
    assert as_integers((2, "a")) is None and as_items("ab") is None
    assert as_items(range(2)) == (0, 1)


def test_errors_about_axes_name_the_axes() -> None:
    x = td.asarray(np.zeros((2, 3), np.float32), axes=("batch", "channel"))
    with pytest.raises(td.AxisError, match=r"out of range .*\(batch, channel\)"):
        td.sum(x, 5)
    with pytest.raises(td.AxisError, match=r"twice of float32\[batch=2, channel=3\]"):
        td.sum(x, ("batch", 0))
    with pytest.raises(td.AxisError, match=r"'width' in float32\[batch=2, channel=3\]"):
        td.softmax(x, "width")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: td.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a), (x, x)),
        lambda x: td.scan(lambda c: (c, c), x, length=3),
        lambda x: td.cond(x > 0, lambda: x, lambda a: a),
        lambda x: td.function(lambda a, b: a)(x),
    ],
)
def test_a_function_of_the_callers_that_does_not_fit_is_what_is_named(
    call: Any,
) -> None:
    """The call itself is right: what it takes is no answer."""
    with pytest.raises(td.TreadleError, match=r"<lambda>\(\) (missing|takes)"):
        call(td.ones(()))


def _two() -> td.nn.Module:
    return td.nn.Sequential(td.nn.Embedding(5, 3), td.nn.Linear(3, 4))


def _wide(x: Any) -> Any:
    return td.sum(_two()[1](x))


def _trained(x: Any) -> Any:
    net = _two()
    opt = td.optim.SGD(net.parameters())

    @td.function
    def step(ids: Any) -> td.Tensor:
        loss = td.mean(net(ids))
        opt.step(loss)
        return loss

    step(np.array([1, 1]))
    return step(x)


LONG, FAR = np.ones((2, 7), np.float32), np.array([7, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: td.function(_wide)(LONG),
        lambda: td.vmap(_wide)(LONG),
        lambda: td.map(_wide, td.asarray(LONG)),
        lambda: td.checkpoint(_wide)(LONG),
        lambda: td.cond(True, lambda: _wide(LONG), lambda: _wide(LONG)),
        lambda: _two()(FAR).numpy(),
        lambda: float(td.sum(_two()(FAR))),
        lambda: np.asarray(_two()(FAR)),
        lambda: td.function(_two())(FAR).numpy(),
        lambda: _trained(FAR),
    ],
)
def test_few_frames_of_the_library_are_shown(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the layer is named, when it was called or when its values were computed."""
    monkeypatch.setattr(boundary, "_FULL", False)  # as it is outside of the suite
    with pytest.raises(td.TreadleError, match=r"\n  in: ") as caught:
        call()
    frames = traceback.extract_tb(caught.value.__traceback__)
    home = os.path.dirname(td.__file__) + os.sep
    assert sum(frame.filename.startswith(home) for frame in frames) <= 5
    assert frames[0].name == "test_few_frames_of_the_library_are_shown"
