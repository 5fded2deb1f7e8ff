"""LoRA: by its formula, what it trains, merged, in whole networks."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle import nn
from treadle.base.errors import ArgumentError

RNG = np.random.default_rng(3)


def test_lora_is_its_formula_and_merges_into_it() -> None:
    layer = nn.Linear(5, 4, dtype="float64")
    x = RNG.normal(size=(3, 5))
    before = layer(x).numpy()
    lora = nn.LoRA(layer, rank=2, alpha=6.0)
    assert lora(x).numpy().tobytes() == before.tobytes()
    lora.lora_b.assign(RNG.normal(size=(4, 2)))
    s = lora.state_dict()
    weight = s["layer.weight"] + 3.0 * s["lora_b"] @ s["lora_a"]
    want = x @ weight.T + s["layer.bias"]
    np.testing.assert_allclose(lora(x).numpy(), want, atol=1e-12)
    merged = lora.merged()
    np.testing.assert_allclose(merged(x).numpy(), want, atol=1e-12)
    assert merged is layer and merged.trainable


def test_only_lora_learns_and_states_go_around() -> None:
    def made() -> nn.TransformerEncoder:
        layers = [nn.TransformerEncoderLayer(8, 2, 16, 0.0) for _ in range(2)]
        return nn.TransformerEncoder(layers)

    with td.options(seed=1):
        net = made()
    paths = nn.add_lora(net, rank=2, only=["q_proj", "linear1"])
    assert paths == [
        f"layers.{k}.{p}" for k in (0, 1) for p in ("self_attn.q_proj", "linear1")
    ]
    x = td.asarray(RNG.normal(size=(2, 3, 8)), "float32")
    before, optimizer = net.state_dict(), td.optim.Adam(lr=0.01)
    losses = [float(optimizer.step(((net(x) - 1) ** 2).mean())) for _ in range(20)]
    assert losses[-1] < losses[0]
    for name, array in net.state_dict().items():
        moved = array.tobytes() != before[name].tobytes()
        assert moved == ("lora" in name), name
    other = made()
    nn.add_lora(other, rank=2, only=["q_proj", "linear1"])
    other.load_state_dict(net.state_dict())
    want = net(x).numpy()
    np.testing.assert_allclose(other(x).numpy(), want, atol=1e-6)
    nn.merge_lora(net)
    assert not any("lora" in name for name in net.state_dict())
    np.testing.assert_allclose(net(x).numpy(), want, atol=1e-5)


def test_a_layer_that_is_shared_gets_one_lora() -> None:
    layer = nn.Linear(4, 4)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    assert nn.add_lora(net) == ["0"]
    assert net[0] is net[2] and isinstance(net[0], nn.LoRA)
    nn.merge_lora(net)
    assert net[0] is net[2] is layer


def test_parts_in_lists_and_dicts_are_found() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            self.some = [nn.Linear(2, 2), nn.Linear(2, 2)]
            self.named = {"a": nn.Linear(2, 2)}

    net = Parts()
    assert nn.add_lora(net) == ["some.0", "some.1", "named.a"]
    assert all(isinstance(part, nn.LoRA) for part in (*net.some, net.named["a"]))


def test_lora_learns_beside_int8_weights() -> None:
    with td.options(seed=2):
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    nn.add_lora(net, rank=2)
    assert nn.quantize_weights(net) == ["0.layer", "2.layer"]
    x = td.asarray(RNG.normal(size=(5, 6)), "float32")
    optimizer = td.optim.Adam(lr=0.02)
    losses = [float(optimizer.step(((net(x) - 1) ** 2).mean())) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    with pytest.raises(ArgumentError, match="merge before"):
        nn.merge_lora(net)


def test_mistakes_are_told_with_the_remedy() -> None:
    with pytest.raises(ArgumentError, match="linear1, linear2, out_proj"):
        nn.add_lora(nn.TransformerEncoderLayer(8, 2, 16), only=["query"])
    with pytest.raises(ArgumentError, match="beside a Linear"):
        nn.LoRA(nn.ReLU())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="rank"):
        nn.LoRA(nn.Linear(2, 2), rank=0)
