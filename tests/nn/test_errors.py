"""Errors tell the layer that was computed, in few frames of the library."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import treadle as td
from treadle.base import boundary


class Net(td.nn.Module):
    def __init__(self) -> None:
        layers = [td.nn.TransformerDecoderLayer(4, 2, 8) for _ in range(2)]
        self.decoder = td.nn.TransformerDecoder(layers)
        self.head = td.nn.Sequential(td.nn.Linear(3, 4), td.nn.ReLU())

    def forward(self, x: Any) -> Any:
        return self.decoder(self.head(x), td.ones((1, 2, 4)))


def broken(net: td.nn.Module, x: Any) -> td.TreadleError:
    with pytest.raises(td.TreadleError) as caught:
        net(x)
    return caught.value


def test_the_layer_is_named_by_its_path() -> None:
    net = Net()
    told = str(broken(net, td.ones((1, 2, 7))))
    assert told.startswith("Linear: got 7 columns, takes 3\n")
    assert "in: head.0 = Linear(in_features=3, out_features=4, bias=True)" in told
    assert "operands: float32[1, 2, 7]" in told and "test_errors.py" in told
    first: Any = net.decoder.layers[0]
    first.linear1 = td.nn.Linear(3, 8)
    told = str(broken(net, td.ones((1, 2, 3))))
    assert "got 4 columns" in told
    assert "in: decoder.layers.0.linear1 = Linear(in_features=3, out" in told


def test_a_layer_alone_and_none() -> None:
    told = str(broken(td.nn.Linear(3, 4), td.ones((2, 7))))
    assert "  in: Linear(in_features=3" in told
    with pytest.raises(td.ShapeError) as caught:
        td.ones((2, 3)) @ td.ones((2, 3))
    assert "  in: " not in str(caught.value)


def frames(error: BaseException) -> int:
    home = boundary.__file__.removesuffix("base/boundary.py")
    stack = traceback.extract_tb(error.__traceback__)
    return sum(frame.filename.startswith(home) for frame in stack)


def test_five_frames_of_the_library_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "_FULL", False)
    net = Net()
    for _ in range(3):  # also where the core enters layers
        assert frames(broken(net, td.ones((1, 2, 7)))) <= 5
        net(td.ones((1, 2, 3)))
    with pytest.raises(td.ShapeError) as caught:
        td.reshape(td.ones(3), 2)
    assert frames(caught.value) <= 5


def test_frames_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's function that the library calls is in the traceback."""
    monkeypatch.setattr(boundary, "_FULL", False)

    def mine(x: Any) -> Any:
        return td.reshape(x, (2, 2))

    with pytest.raises(td.ShapeError) as caught:
        td.map(mine, td.ones((2, 3)))
    names = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert "mine" in names
