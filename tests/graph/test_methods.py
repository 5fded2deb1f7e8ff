"""Methods under torch's names compute what NumPy's functions do."""

from __future__ import annotations

import inspect
import json
import pickle
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.elementwise import ElementwiseMethods
from treadle.graph.methods import Methods, Size

X = np.array([[0.25, 0.5, 0.75], [0.1, -0.5, 0.9]], np.float32)
Y = np.array([[1.0, -0.5, 2.0], [0.1, 3.0, -2.5]], np.float32)
M = np.eye(3, 2, dtype=np.float32)
ERF = [0.27632639, 0.52049988, 0.71115563, 0.11246292, -0.52049988, 0.79690821]
UNARY: dict[str, Any] = {
    "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "asinh": np.arcsinh,
    "atanh": np.arctanh, "neg": np.negative, "conj": np.conj,
    "acosh": lambda x: np.full_like(x, np.nan),
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "round": np.round,
    "erf": lambda x: np.array(ERF, np.float32).reshape(x.shape),
    "erfc": lambda x: 1 - np.array(ERF, np.float32).reshape(x.shape),
    "real": np.real, "imag": np.imag,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
PRODUCTS = ("matmul", "mm", "mv", "bmm")
E = np.exp(X)
OTHERS: dict[str, tuple[Any, Any]] = {
    "mm": (lambda x: x.mm(M), X @ M),
    "matmul": (lambda x: x.matmul(M), X @ M),
    "mv": (lambda x: x.mv(X[0]), X @ X[0]),
    "bmm": (lambda x: x.unsqueeze(0).bmm(M[None]), (X @ M)[None]),
    "dim": (lambda x: x.dim(), 2),
    "numel": (lambda x: x.numel(), 6),
    "element_size": (lambda x: x.double().element_size(), 8),
    "view": (lambda x: x.view(3, -1), X.reshape(3, 2)),
    "view_as": (lambda x: x.view_as(np.ones((3, 2))), X.reshape(3, 2)),
    "reshape_as": (lambda x: x.reshape_as(np.ones(6)), X.reshape(6)),
    "permute": (lambda x: x.permute(1, 0), X.T),
    "t": (lambda x: x.t(), X.T),
    "unsqueeze": (lambda x: x.unsqueeze(-1), X[..., None]),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze(), X),
    "flatten": (lambda x: x.unsqueeze(0).flatten(1), X.reshape(1, 6)),
    "ravel": (lambda x: x.ravel(), X.ravel()),
    "unflatten": (lambda x: x.unflatten(1, (3, 1)), X[..., None]),
    "expand": (lambda x: x.expand(2, -1, -1), np.stack([X, X])),
    "expand_as": (lambda x: x.expand_as(np.ones((2, 2, 3))), np.stack([X, X])),
    "tile": (lambda x: x.tile(2, 1), np.tile(X, (2, 1))),
    "swapaxes": (lambda x: x.swapaxes(0, 1), X.T),
    "swapdims": (lambda x: x.swapdims(0, 1), X.T),
    "moveaxis": (lambda x: x.moveaxis(0, 1), X.T),
    "movedim": (lambda x: x.movedim(0, 1), X.T),
    "unbind": (lambda x: x.unbind(1)[2], X[:, 2]),
    "flip": (lambda x: x.flip(1), X[:, ::-1]),
    "roll": (lambda x: x.roll(1, 0), X[::-1]),
    "index_select": (lambda x: x.index_select(1, [2, 0]), X[:, [2, 0]]),
    "type_as": (lambda x: x.type_as(np.ones(1)), X.astype("f8")),
    "float": (lambda x: x.double().float(), X),
    "double": (lambda x: x.double(), X.astype("f8")),
    "half": (lambda x: x.half().float(), X.astype("f2").astype("f4")),
    "bfloat16": (lambda x: (x * 4).bfloat16().float().round(), np.round(X * 4)),
    "int": (lambda x: (x * 10).int(), (X * 10).astype("i4")),
    "long": (lambda x: (x * 10).long(), (X * 10).astype("i8")),
    "bool": (lambda x: x.bool(), X.astype(bool)),
    "is_floating_point": (lambda x: x.is_floating_point(), True),
    "detach": (lambda x: x.detach(), X),
    "clone": (lambda x: x.clone(), X),
    "contiguous": (lambda x: x.contiguous(), X),
    "cpu": (lambda x: x.cpu(), X),
    "masked_fill": (lambda x: x.masked_fill(X > 0.5, 9.0), np.where(X > 0.5, 9.0, X)),
    "where": (lambda x: x.where(X > 0.5, 9.0), np.where(X > 0.5, X, 9.0)),
    "clip": (lambda x: x.clip(0.2, 0.6), X.clip(0.2, 0.6)),
    "clamp": (lambda x: x.clamp(min=0.2), X.clip(0.2)),
    "tril": (lambda x: x.tril(), np.tril(X)),
    "triu": (lambda x: x.triu(1), np.triu(X, 1)),
    "argsort": (lambda x: x.argsort(descending=True), np.argsort(-X)),
    "cumsum": (lambda x: x.cumsum(1), X.cumsum(1)),
    "cumprod": (lambda x: x.cumprod(1), X.cumprod(1)),
    "amax": (lambda x: x.amax(1), X.max(1)),
    "amin": (lambda x: x.amin(1, keepdims=True), X.min(1, keepdims=True)),
    "softmax": (lambda x: x.softmax(1), E / E.sum(1, keepdims=True)),
    "log_softmax": (lambda x: x.log_softmax(), X - np.log(E.sum(1, keepdims=True))),
    "logsumexp": (lambda x: x.logsumexp(), np.log(E.sum())),
    "size": (lambda x: x.size, 6),
}
OWN = [n for kind in (Methods, ElementwiseMethods) for n in vars(kind) if n[0] != "_"]
UNARIES = [n for n in vars(ElementwiseMethods) if n[0] != "_" and n not in PRODUCTS]


def check(found: Any, expected: Any) -> None:
    value = found.numpy() if isinstance(found, td.Tensor) else found
    np.testing.assert_allclose(value, expected, rtol=2e-6, atol=1e-7)
    if isinstance(found, td.Tensor):
        assert found.shape == np.shape(expected)


@pytest.mark.parametrize("name", UNARIES)
@np.errstate(all="ignore")
def test_of_elements(name: str) -> None:
    method = vars(ElementwiseMethods)[name]
    two = "other" in inspect.signature(method).parameters if callable(method) else False
    for x in (td.asarray(X), td.Variable(X)):
        if two:
            reference = BINARY.get(name) or getattr(np, name)
            check(getattr(x, name)(td.asarray(Y)), reference(X, Y))
        else:
            found = getattr(x, name)
            reference = UNARY.get(name) or getattr(np, name)
            check(found() if callable(found) else found, reference(X))


@pytest.mark.parametrize("name", OTHERS)
def test_of_others(name: str) -> None:
    call, expected = OTHERS[name]
    for x in (td.asarray(X), td.Variable(X)):
        check(call(x), expected)


def test_every_method_is_in_a_table() -> None:
    assert {*UNARIES, *OTHERS} == set(OWN)


def test_the_size_is_a_number_that_can_be_called() -> None:
    x = td.asarray(X)
    assert x.size == 6 and x.size() == (2, 3) and x.size(0) == 2 and x.size(-1) == 3
    assert isinstance(x.size, int) and json.dumps(x.size) == "6"
    assert x.size * 2 == 12 and type(x.size) is Size
    assert pickle.loads(pickle.dumps(x.size))() == (2, 3)
    for dim in (2, "a", 1.0):
        with pytest.raises(td.ShapeError, match="there is no dimension"):
            x.size(dim)


def test_what_does_not_fit_is_said() -> None:
    x: Any = td.asarray(X)
    for call, error, says in (
        (lambda: x.expand(5), td.ShapeError, "cannot be expanded"),
        (lambda: x.expand(-1, 2, 3), td.ShapeError, "not a new one"),
        (lambda: x.unsqueeze(0).t(), td.ShapeError, "two dimensions at most"),
        (lambda: x.view(4, 4), td.ShapeError, "do not fill"),
        (lambda: x.view_as(3), td.CallError, "does not take"),
        (lambda: x.permute(0), td.AxisError, "permutation"),
    ):
        with pytest.raises(error, match=says):
            call()


def test_gradients_pass_and_stop() -> None:
    p = td.param("p", init=X)
    g = td.grad((p.exp() * p.detach()).sum(), [p])[0]
    check(g, np.exp(X) * X)


def test_methods_that_the_core_follows_have_names_and_docstrings() -> None:
    for name in ("sum", "max", "exp", "softmax", "squeeze"):
        method = getattr(td.Tensor, name)
        assert method.__name__ == name and method.__doc__
    assert list(inspect.signature(td.Tensor.sum).parameters)[:2] == ["self", "axis"]
