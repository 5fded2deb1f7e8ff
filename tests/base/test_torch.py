"""Every name of torch that people write works here, or says what stands for it."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.base.names_of_torch import NAMES, PLACES
from treadle.base.torch import answers, missing

OBJECTS: dict[str, Any] = {
    "treadle": td,
    "treadle.data": td.data,
    "treadle.fft": td.fft,
    "treadle.linalg": td.linalg,
    "treadle.nn": td.nn,
    "treadle.nn.functional": td.nn.functional,
    "treadle.nn.init": td.nn.init,
    "treadle.nn.utils": td.nn.utils,
    "treadle.optim": td.optim,
    "treadle.optim.schedules": td.optim.schedules,
    "Module": td.nn.Linear(2, 2),
    "Optimizer": td.optim.Adam(),
    "Tensor": td.ones((2, 2)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_name_works_or_tells_the_name_here(place: str) -> None:
    for name in PLACES[place].split():
        try:
            getattr(OBJECTS[place], name)
        except AttributeError as error:
            told = str(error)
            assert f".{name} " in told, name
            assert told.endswith(" here") or "the nearest is" in told, told


def test_there_are_enough_names() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 1000


@pytest.mark.parametrize("place", OBJECTS)
def test_what_an_answer_names_is_there(place: str) -> None:
    beginnings = {"td": td, "x": td.ones(2), "opt": td.optim.Adam()}
    beginnings |= {"net": td.nn.Linear(2, 2), "v": td.Variable([1.0])}
    beginnings["w"] = beginnings["v"]
    for here in answers(place).values():
        for path in re.findall(r"\b(?:td|x|v|w|net|opt)(?:\.[A-Za-z_]\w*)+", here):
            first, *rest = path.split(".")
            functools.reduce(getattr, rest, beginnings[first])


def test_other_names_are_not_there_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match="module 'treadle' has no attribute 'foo'"):
        td.foo  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'foo'"):
        td.ones(2).foo  # type: ignore[attr-defined]  # noqa: B018
    assert str(missing("treadle.nn", "foo")).startswith("module 'treadle.nn'")


def test_what_is_elsewhere_is_not_listed() -> None:
    x, net = td.ones(2), td.nn.Linear(2, 2)
    assert not hasattr(x, "cuda") and "cuda" not in dir(x) and "exp" in dir(x)
    assert not hasattr(net, "half") and "half" not in dir(net) and "weight" in dir(net)
    net.to = 1  # type: ignore[attr-defined]
    assert vars(net)["to"] == 1 == net.to  # type: ignore[attr-defined]


# -- arguments ---------------------------------------------------------------------

TWO = np.arange(6.0, dtype=np.float32).reshape(2, 3)
CALLS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda x: x.sum(dim=1, keepdim=True), TWO.sum(1, keepdims=True)),
    "mean": (lambda x: x.mean(dim=(0, 1)), TWO.mean()),
    "amax": (lambda x: x.amax(dim=1, keepdim=True), TWO.max(1, keepdims=True)),
    "argmax": (lambda x: x.argmax(dim=1), TWO.argmax(1)),
    "any": (lambda x: x.any(dim=1), TWO.any(1)),
    "std": (lambda x: x.std(dim=0, correction=1), TWO.std(0, ddof=1)),
    "cumsum": (lambda x: x.cumsum(dim=1), TWO.cumsum(1)),
    "unsqueeze": (lambda x: x.unsqueeze(dim=1), TWO[:, None]),
    "squeeze": (lambda x: x.unsqueeze(dim=0).squeeze(dim=0), TWO),
    "td.sum": (lambda x: td.sum(x, dim=1), TWO.sum(1)),
    "td.std": (lambda x: td.std(x, dim=0, correction=1), TWO.std(0, ddof=1)),
    "td.concat": (lambda x: td.concat([x, x], dim=1), np.concatenate([TWO, TWO], 1)),
    "td.stack": (lambda x: td.stack([x, x], dim=1), np.stack([TWO, TWO], 1)),
    "td.flip": (lambda x: td.flip(x, dims=(0, 1)), TWO[::-1, ::-1]),
    "td.roll": (lambda x: td.roll(x, 1, dims=1), np.roll(TWO, 1, 1)),
    "td.logsumexp": (
        lambda x: td.logsumexp(x, dim=1, keepdim=True),
        np.log(np.exp(TWO).sum(1, keepdims=True)),
    ),
    "td.permute_dims": (lambda x: td.permute_dims(x, dims=(1, 0)), TWO.T),
    "td.expand_dims": (lambda x: td.expand_dims(x, dim=0), TWO[None]),
    "linalg": (
        lambda x: td.linalg.vector_norm(x, dim=1, keepdim=True),
        np.linalg.norm(TWO, axis=1, keepdims=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_dim_is_axis_and_keepdim_is_keepdims(name: str) -> None:
    call, expected = CALLS[name]
    for x in (td.asarray(TWO), td.Variable(TWO)):
        for _ in range(3):  # the third one follows a plan, where there is the core
            np.testing.assert_allclose(call(x).numpy(), expected, rtol=1e-6)


def test_dim_in_a_layer_and_in_functional() -> None:
    x = td.asarray(TWO)
    functional = td.nn.functional.softmax(x, dim=0)  # type: ignore[call-arg]
    assert td.alike(functional, td.softmax(x, 0))
    assert td.alike(td.nn.Softmax(dim=0)(x), td.softmax(x, 0))


def test_where_torch_means_something_else_it_is_said() -> None:
    x: Any = td.asarray(TWO)
    calls: list[tuple[Any, str]] = [
        (lambda: x.max(dim=1), "values and their places.*td.argmax"),
        (lambda: x.min(dim=1), "values and their places.*td.argmin"),
        (lambda: x.var(dim=1), "correction=1"),
        (lambda: td.std(x, dim=1), "correction=1"),
        (lambda: td.sort(x, dim=1), "values and their places.*td.argsort"),
        (lambda: td.median(x, dim=1), "mean of two middle"),
    ]
    for call, hint in calls:
        with pytest.raises(td.CallError, match=rf"(?s)means something else.*{hint}"):
            call()


def test_arguments_have_torchs_names_too() -> None:
    x, ids = td.asarray(TWO), [0, 2]
    nn, functional = td.nn, td.nn.functional
    rnn = nn.GRU(3, 2, batch_first=True)
    state = td.ones((1, 1, 2))
    pairs: list[tuple[Any, Any]] = [
        (functional.one_hot(ids, num_classes=3), functional.one_hot(ids, 3)),
        (functional.leaky_relu(-x, negative_slope=0.5), functional.leaky_relu(-x, 0.5)),
        (td.triu(x, diagonal=1), td.triu(x, 1)),
        (rnn(x[None], hx=state)[0], rnn(x[None], state)[0]),
    ]  # type: ignore[call-arg]
    for by_torch, here in pairs:
        assert td.alike(by_torch, here)
    table = nn.Embedding(num_embeddings=4, embedding_dim=2, padding_idx=0)
    assert table.weight.shape == (4, 2) and not table.weight.numpy()[0].any()


def test_arguments_that_nothing_has_are_answered() -> None:
    x: Any = td.ones((1, 2, 4))
    layer: Any = td.nn.TransformerEncoderLayer(4, 2, 8)
    calls: list[tuple[Any, str]] = [
        (lambda: td.random.normal((2,), generator=1), "seed="),
        (lambda: td.nn.L1Loss(size_average=False), "reduction="),
        (lambda: layer.parameters(recurse=False), "all that is below"),
        (lambda: td.data.Loader([1], collate_fn=list), "ListDataset"),
        (lambda: td.zeros(1, 2, 3), r"td.zeros\(\(1, 2, 3\)\)"),
        (lambda: td.ones(2, 3), "extents are one tuple"),
        (lambda: td.save({"a": x}, "m.npz"), "td.save"),
        (lambda: td.gather(x, 1, x), "take_along_axis"),
        (lambda: x.transpose(1, 2), r"x.swapaxes\(1, 2\)"),
        (lambda: x[0].transpose(0, 1), r"x.swapaxes\(0, 1\)"),
        (lambda: td.optim.SGD(lr=0.1).zero_grad(set_to_none=False), "are None"),
    ]
    for call, hint in calls:
        with pytest.raises(td.TreadleError, match=f"(?s){hint}"):
            call()


def test_attributes_that_are_elsewhere_are_not_assigned() -> None:
    p: Any = td.nn.Linear(2, 2).weight
    p.requires_grad = False
    assert not p.trainable and p.requires_grad_() is p and p.requires_grad
    with pytest.raises(AttributeError, match=r"v\.requires_grad, of a Variable"):
        (p * 2).requires_grad = True
    with pytest.raises(AttributeError, match=r"v\.assign"):
        p.data = td.ones((2, 2))


def test_arguments_that_ask_for_nothing_are_taken() -> None:
    x: Any = td.asarray(TWO)
    functional: Any = td.nn.functional
    assert td.alike(functional.relu(x, inplace=True), td.relu(x))
    assert td.alike(functional.softmax(input=x, dim=0), td.softmax(x, 0))
    loss: Any = td.nn.L1Loss(size_average=None, reduce=None)
    assert float(loss(x, x)) == 0.0
    net: Any = td.nn.Linear(2, 2)
    assert len(list(net.parameters(recurse=True))) == 2
    p = td.Parameter([3.0])
    (p * p).sum().backward(retain_graph=True)
    (p * td.ones(2)).backward([1.0, 2.0])
    assert p.grad.tolist() == [9.0]


def test_a_type_is_no_cast() -> None:
    x: Any = td.asarray(TWO)
    with pytest.raises(td.CallError, match=r"x\.astype\(dtype\)"):
        x.type("int32")


@pytest.mark.parametrize("order", [None, 1, -np.inf, 2, "fro", "nuc"])
def test_norms_of_vectors_and_matrices_are_numpys(order: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    wanted = np.linalg.norm(x, order, (0, 2), keepdims=True)
    y = td.linalg.norm(x, order, (0, 2), True)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)
    if not isinstance(order, str):
        flat = td.linalg.norm(x, ord=order, dim=-1)  # type: ignore[call-arg]
        np.testing.assert_allclose(
            flat.numpy(), np.linalg.norm(x, order, -1), rtol=1e-5
        )
    if order != "nuc":
        matrix = td.linalg.norm(x[0], order)
        np.testing.assert_allclose(
            matrix.numpy(), np.linalg.norm(x[0], order), rtol=1e-5
        )


def test_gradients_are_none_as_torch_has_them() -> None:
    net = td.nn.Linear(3, 2)
    for forget in (net.zero_grad, td.optim.SGD(net.parameters(), 0.1).zero_grad):
        td.sum(net(TWO)).backward()
        forget(set_to_none=True)
        assert net.weight.grad is None


def test_a_closure_may_derive_as_torchs_does() -> None:
    net = td.nn.Linear(3, 1)
    net.weight, net.bias = np.ones((1, 3)), np.zeros(1)
    opt = td.optim.LBFGS(net.parameters(), max_iter=3, line_search_fn="strong_wolfe")

    def closure() -> Any:
        opt.zero_grad()
        loss = td.mean(net(TWO) ** 2)
        loss.backward()
        return loss

    first = opt.step(closure)
    assert float(closure()) < first


def test_an_error_in_a_function_of_a_string_is_its_own() -> None:
    program = """
def wrong(layer):
    raise ValueError("mine")
net.apply(wrong)
"""
    with pytest.raises(ValueError, match="mine") as raised:
        exec(program, {"net": td.nn.Linear(2, 2), "__name__": "__main__"})
    assert not isinstance(raised.value, td.TreadleError)


def test_other_arguments_are_what_python_says() -> None:
    x: Any = td.asarray(TWO)
    for call in (
        lambda: x.sum(dmi=1),
        lambda: td.sum(x, dim=1, axis=1),
        lambda: td.exp(x, dim=1),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()
