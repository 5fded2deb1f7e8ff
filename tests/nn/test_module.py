"""What a Module does: registration, names, state, modes, text."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = [nn.Linear(4, 4), nn.Linear(4, 2)]
        self.heads = {"a": nn.Linear(2, 1, bias=False)}
        self.scale = td.param(init=2.0)
        self.seen = td.Variable(0.0)

    def forward(self, x: Any) -> td.Tensor:
        for layer in (self.first, *self.rest, self.heads["a"]):
            x = layer(x)
        return x * self.scale


NAMES = [
    "first.weight",
    "first.bias",
    "rest.0.weight",
    "rest.0.bias",
    "rest.1.weight",
    "rest.1.bias",
    "heads.a.weight",
    "scale",
]


def test_parameters_come_in_order_under_their_paths() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [p.name for p in net.parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["seen"]
    assert [name for name, _ in net.named_modules()] == [
        "",
        "first",
        "rest.0",
        "rest.1",
        "heads.a",
    ]


def test_names_grow_with_the_path_and_own_names_stay() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            self.net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
            self.mine = td.param("mine", init=1.0)

    outer = Outer()
    names = [p.name for p in outer.parameters()]
    assert names[0] == "net.0.weight" and names[2] == "net.1.0.weight"
    assert names[-1] == "mine"
    _ = outer.net[:1]
    assert next(outer.parameters()).name == "net.0.weight"


def test_no_call_of_super_is_needed() -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            self.w = td.param(init=3.0)

        def forward(self, x: Any) -> td.Tensor:
            return x * self.w

    assert float(Small()(2.0)) == 6.0
    with pytest.raises(NotImplementedError, match="does not define forward"):
        nn.Module()(1.0)


def test_state_goes_around() -> None:
    one, two = Net(), Net()
    assert list(one.state_dict()) == [*NAMES, "seen"]
    two.load_state_dict(one.state_dict())
    for name, array in two.state_dict().items():
        assert array.tobytes() == one.state_dict()[name].tobytes()


def test_a_state_that_does_not_fit_is_refused_whole() -> None:
    net = Net()
    before = net.state_dict()
    state = dict(before)
    del state["scale"]
    state["extra"] = np.zeros(1)
    with pytest.raises(td.ModelFileError, match=r"missing: scale; unexpected: extra"):
        net.load_state_dict(state)
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["scale"] and keys.unexpected_keys == ["extra"]
    state["first.bias"] = np.zeros(3)
    with pytest.raises(td.ModelFileError, match=r"first.bias is \(3,\)"):
        net.load_state_dict(state, strict=False)
    after = net.state_dict()
    assert all(after[k].tobytes() == before[k].tobytes() for k in before)


def test_tied_parameters_are_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.encode, self.decode = nn.Linear(2, 2), nn.Linear(2, 2)
            self.decode.weight = self.encode.weight

    net = Tied()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["encode.weight", "encode.bias", "decode.bias"]
    assert "decode.weight" in net.state_dict()
    assert net.decode.weight.name == "encode.weight"
    Tied().load_state_dict(net.state_dict())


def test_modes_reach_all_parts() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert net.eval() is net
    assert [m.training for m in net.modules()] == [False] * 4
    assert all(m.training for m in net.train().modules())


def test_trainable_freezes_and_step_leaves_it() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    net[0].trainable = False
    assert net.trainable and not net[0].trainable
    before = net.state_dict()
    td.optim.SGD(lr=0.5).step(net(td.ones((3, 2))).sum())
    after = net.state_dict()
    assert before["0.weight"].tobytes() == after["0.weight"].tobytes()
    assert before["1.weight"].tobytes() != after["1.weight"].tobytes()


def test_apply_and_zero_grad() -> None:
    net, seen = Net(), []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear"] * 4 + ["Net"]
    net(td.ones((1, 3))).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_buffers_that_are_not_kept() -> None:
    module = nn.Module()
    module.register_buffer("a", np.zeros(2))
    module.register_buffer("b", np.zeros(2), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["a", "b"]
    assert list(module.state_dict()) == ["a"]


def test_repr_is_torchs() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (1): Dropout(p=0.5)\n"
        ")"
    )


def test_containers() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 3)])
    layers.append(nn.Linear(3, 1)).insert(0, nn.Flatten())
    assert len(layers) == 4 and layers[-1].out_features == 1
    assert isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 3
    del layers[0]
    assert next(name for name, _ in layers.named_parameters()) == "0.weight"
    heads = nn.ModuleDict({"x": nn.Linear(1, 1)})
    heads["y"] = nn.Identity()
    assert list(heads) == ["x", "y"] and heads["y"](3) == 3
    with pytest.raises(td.ArgumentError, match="cannot be named"):
        heads["keys"] = nn.Identity()
    named = nn.Sequential({"in": nn.Linear(2, 3), "out": nn.Linear(3, 1)})
    assert named(td.ones((1, 2))).shape == (1, 1)
    assert next(named.parameters()).name == "in.weight"


def test_a_copy_is_another_network() -> None:
    net = nn.Linear(2, 2)
    twin = copy.deepcopy(net)
    td.optim.SGD(lr=0.5).step(net(td.ones((1, 2))).sum())
    assert twin.weight.numpy().tobytes() != net.weight.numpy().tobytes()
    layers = nn.ModuleList([copy.deepcopy(net) for _ in range(2)])
    assert [p.name for p in layers.parameters()][::2] == ["0.weight", "1.weight"]


def test_a_traced_module_retraces_with_its_mode() -> None:
    layer = nn.Dropout(0.5)

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return layer(x) * 1.0

    x = td.ones(64)
    assert (f(x).numpy() == 0).any()
    layer.eval()
    assert not (f(x).numpy() == 0).any() and f.count == 2


def trained(net: nn.Module) -> list[str]:
    return [name for name, p in net.named_parameters() if p.trainable]


def test_trainable_off_and_on_restores_own_settings() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    net[0].bias.trainable = False
    net[1][0].trainable = False
    net.trainable = False
    assert not net.trainable and trained(net) == []
    assert len(list(net.parameters())) == 4, "frozen ones are parameters"
    net[0].weight.trainable = True
    assert trained(net) == [], "its own setting is not enough"
    net.trainable = True
    assert trained(net) == ["0.weight"]
    net[1][0].trainable = True
    assert trained(net) == ["0.weight", "1.0.weight", "1.0.bias"]
    net.requires_grad_(False)
    assert trained(net) == []
    net[1].requires_grad_()
    assert trained(net) == ["1.0.weight", "1.0.bias"], "as in torch"


def test_a_variable_that_is_trained_comes_back() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            self.v = td.Variable(1.0, trainable=True)
            self.count = td.Variable(0, dtype="int64")

    net = Scale()
    net.trainable = False
    assert trained(net) == [] and [k for k, _ in net.named_buffers()] == ["count"]
    net.trainable = True
    assert trained(net) == ["v"]


def test_a_shared_parameter_trains_if_all_around_do() -> None:
    shared = nn.Linear(2, 2)
    a, b = nn.Sequential(shared), nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
    b[1].weight = shared.weight
    net = nn.Sequential(a, b)
    a.trainable = False
    assert trained(net) == ["1.1.bias"] and not shared.weight.trainable
    b.trainable = False
    a.trainable = True
    assert trained(net) == ["0.0.bias"]
    b.trainable = True
    assert trained(net) == ["0.0.weight", "0.0.bias", "1.1.bias"]


def test_parts_join_and_leave_a_frozen_module() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    net.trainable = False
    net.append(nn.Linear(2, 1))
    assert trained(net) == []
    part = net[0]
    net[0] = nn.ReLU()
    assert trained(part) == ["weight", "bias"] and trained(net) == []
    layer = nn.Linear(2, 2)
    layer.trainable = False
    weight = layer.weight
    layer.weight = td.param("new", (2, 2), init=0.0)
    assert weight.trainable and not layer.weight.trainable
    weight = layer.weight
    del layer.weight
    assert weight.trainable and trained(layer) == []


def test_copies_keep_what_trains() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    net[0].bias.trainable = False
    net.trainable = False
    again = copy.deepcopy(net)
    assert trained(again) == []
    again.trainable = True
    assert trained(again) == ["0.weight", "1.weight", "1.bias"] and trained(net) == []
    part = copy.deepcopy(net[0])
    assert trained(part) == ["weight"], "around the copy of a part is nothing"


def test_what_has_no_effect_is_told() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    net.trainable = False
    for setting in (net[0], net[0].weight):
        with pytest.warns(UserWarning, match="a module around it"):
            setting.trainable = True
    assert trained(net) == []


def test_a_frozen_part_is_frozen_in_a_function_too() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = td.optim.SGD(lr=0.5)

    @td.function
    def step(x: Any) -> Any:
        return optimizer.step(net(x).sum())

    for off in (None, net[0], net[1]):
        for part in net:
            part.trainable = part is not off
        before = net.state_dict()
        step(np.ones((3, 2), "f4"))
        after = net.state_dict()
        for k, part in enumerate(net):
            key = f"{k}.bias"
            same = before[key].tobytes() == after[key].tobytes()
            assert same is (part is off)


def test_an_array_that_is_assigned_is_copied_into_the_parameter() -> None:
    layer = nn.Linear(3, 2)
    weight, bias = layer.weight, layer.bias
    array = np.arange(6.0).reshape(2, 3)
    for value in (array, array.tolist(), td.asarray(array), td.asarray(array) * 1.0):
        layer.weight.assign(np.zeros((2, 3)))
        layer.weight = value
        assert layer.weight is weight and list(layer.parameters()) == [weight, bias]
        np.testing.assert_array_equal(weight.numpy(), array)
    array[:] = 7.0
    layer.weight *= 2
    assert layer.weight is weight and weight.numpy()[1, 2] == 10.0
    layer.bias = np.ones(2)
    assert layer.bias is bias and bias.numpy().tolist() == [1.0, 1.0]
    norm = nn.BatchNorm1d(2)
    norm.running_mean = np.full(2, 3.0)
    assert norm.running_mean.tolist() == [3.0, 3.0] and len(list(norm.buffers())) == 3
    listed = nn.ParameterList([td.param(init=1.0)])
    listed[0] = 5.0
    assert [float(p) for p in listed.parameters()] == [5.0]
    layer.weight = td.param(init=array)  # another parameter takes its place
    assert layer.weight is not weight and len(list(layer.parameters())) == 2


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("weight", np.ones((3, 3)), td.ShapeError),
        ("weight", "text", td.DTypeError),
        ("weight", None, td.ArgumentError),
        ("bias", None, td.ArgumentError),
        ("bias", np.ones(3), td.ShapeError),
    ],
)
def test_what_is_no_value_of_a_parameter_is_refused(
    name: str, value: Any, error: type[td.TreadleError]
) -> None:
    layer = nn.Linear(3, 2)
    before = list(layer.parameters())
    with pytest.raises(error, match=rf"Linear\.{name}: "):
        setattr(layer, name, value)
    assert list(layer.parameters()) == before
    del layer.bias
    layer.bias = None
    assert layer(np.ones(3, "f4")).shape == (2,)


def test_parts_that_share_a_parameter_have_one_value(tmp_path: Path) -> None:
    net = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    net["b"].weight = net["a"].weight
    state = net.state_dict()
    net.load_state_dict(state)
    before = net["a"].weight.numpy()
    state["b.weight"] = state["b.weight"] + 1
    td.save(tmp_path / "m.npz", state)
    loads: list[Any] = [
        lambda: net.load_state_dict(state),
        lambda: td.load(tmp_path / "m.npz", net),
        lambda: td.load(
            tmp_path / "m.npz",
            {"a.weight": net["a"].weight, "b.weight": net["a"].weight},
            strict=False,
        ),
    ]
    for load in loads:
        with pytest.raises(td.ModelFileError, match="are one parameter here"):
            load()
        np.testing.assert_array_equal(net["a"].weight.numpy(), before)
    del state["a.weight"]
    net.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(net["a"].weight.numpy(), before + 1)
