"""What torch's people bring: layouts of attention, tensors of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn


def as_torch_has_it(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a layer with attention, under torch's names."""
    given = {k: v for k, v in state.items() if "q_proj" not in k}
    given = {k: v for k, v in given.items() if "k_proj" not in k and "v_proj" not in k}
    for kind in ("weight", "bias"):
        for name in [k for k in state if k.endswith(f"q_proj.{kind}")]:
            start = name.removesuffix(f"q_proj.{kind}")
            parts = [state[f"{start}{letter}_proj.{kind}"] for letter in "qkv"]
            given[f"{start}in_proj_{kind}"] = np.concatenate(parts)
    return given


def test_attention_takes_the_layout_of_torch() -> None:
    with td.options(seed=1):
        first = nn.TransformerEncoderLayer(8, 2, 16).eval()
        second = nn.TransformerEncoderLayer(8, 2, 16).eval()
    given = as_torch_has_it(first.state_dict())
    assert "self_attn.in_proj_weight" in given
    keys = second.load_state_dict(given)
    assert not keys.missing_keys and not keys.unexpected_keys
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    assert np.array_equal(first(x).numpy(), second(x).numpy())
    given["self_attn.in_proj_weight"] = np.zeros((5, 8), np.float32)
    with pytest.raises(td.ModelFileError, match="in_proj_weight"):
        second.load_state_dict(given)


def test_attention_of_several_widths_takes_the_layout_of_torch() -> None:
    first, second = (nn.MultiHeadAttention(4, 2, kdim=3, vdim=5) for _ in range(2))
    state = first.state_dict()
    given = {
        "in_proj_bias": np.concatenate([state[f"{c}_proj.bias"] for c in "qkv"]),
        **{f"{c}_proj_weight": state[f"{c}_proj.weight"] for c in "qkv"},
        **{k: v for k, v in state.items() if k.startswith("out")},
    }
    second.load_state_dict(given)
    for name, array in second.state_dict().items():
        assert np.array_equal(array, state[name])


def test_tensors_of_torch_are_inputs() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("float16", "bfloat16", "float32", "int64"):
        x = torch.ones(2, 3, dtype=getattr(torch, dtype)).t()
        y = td.asarray(x)
        assert y.dtype.name == dtype and y.shape == (3, 2) and bool((y == 1).all())
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.full((2,), 1.5, dtype=dtype, requires_grad=True)
        assert (td.ones(2) * x).tolist() == [1.5, 1.5]
        layer = nn.Linear(2, 1)
        assert layer(x).shape == (1,)
        layer.load_state_dict({"weight": x.reshape(1, 2), "bias": x[:1]})
        assert layer.weight.tolist() == [[1.5, 1.5]]


def test_gradients_are_clipped_in_place_of_what_backward_left() -> None:
    p, q, unused = td.Parameter([3.0, 4.0]), td.Parameter([12.0]), td.Parameter([1.0])

    def derive() -> None:
        for v in (p, q):
            v.zero_grad()
        ((p * p).sum() / 2 + (q * q).sum() / 2).backward()

    derive()
    total = nn.utils.clip_grad_norm_([p, q, unused], 6.5)
    assert float(total) == 13.0 and unused.grad is None
    np.testing.assert_allclose(p.grad.numpy(), [1.5, 2.0], rtol=1e-6)
    td.optim.SGD([p, q], lr=1.0).step()
    np.testing.assert_allclose(p.numpy(), [1.5, 2.0], rtol=1e-6)
    derive()
    assert float(nn.utils.clip_grad_norm_(p, 9.0, norm_type=1.0)) == 3.5
    np.testing.assert_allclose(p.grad.numpy(), [1.5, 2.0], rtol=1e-6)
    nn.utils.clip_grad_value_([p, q], 1.75)
    np.testing.assert_allclose(p.grad.numpy(), [1.5, 1.75], rtol=1e-6)
    p.grad = td.asarray([np.inf, 0.0])
    with pytest.raises(td.RunError, match="the norm of all gradients is inf"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_parameters_are_a_vector_and_back() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    vector = nn.utils.parameters_to_vector(net.parameters())
    flat = [v.numpy().ravel() for v in net.parameters()]
    assert np.array_equal(vector.numpy(), np.concatenate(flat))
    grads = td.grad((vector * vector).sum(), list(net.parameters()))
    np.testing.assert_allclose(grads[0].numpy().ravel(), 2 * flat[0])
    nn.utils.vector_to_parameters(vector * 3.0, net.parameters())
    np.testing.assert_allclose(net[0].weight.numpy().ravel(), 3 * flat[0], rtol=1e-6)
    with pytest.raises(td.ArgumentError, match="11 elements"):
        nn.utils.vector_to_parameters([1.0], net.parameters())


def test_lazy_layers_become_what_their_first_input_asks_for() -> None:
    with td.options(seed=1):
        net = nn.Sequential(
            nn.LazyConv2d(4, 3, padding=1),
            nn.LazyBatchNorm2d(),
            nn.ReLU(),
            nn.Flatten(),
            nn.LazyLinear(2, bias=False),
        )
        assert not list(net.parameters())
        y = net(np.ones((2, 3, 5, 5), np.float32)).numpy()
    with td.options(seed=1):
        plain = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(100, 2, bias=False),
        )
        want = plain(np.ones((2, 3, 5, 5), np.float32)).numpy()
    assert np.array_equal(y, want)
    assert type(net[0]) is nn.Conv2d and type(net[4]) is nn.Linear
    named = {name: v.shape for name, v in net.named_parameters()}
    assert named == {name: v.shape for name, v in plain.named_parameters()}
    assert net[4].weight.name == "4.weight"


def test_rows_that_are_read_are_scaled_down_in_their_table() -> None:
    table = nn.Embedding(3, 2, max_norm=1.0)
    table.weight = [[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]
    read = table([[0, 1], [0, 0]])
    scaled = [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]]
    np.testing.assert_allclose(read.numpy()[0], scaled[:2], rtol=1e-5)
    np.testing.assert_allclose(table.weight.numpy(), scaled, rtol=1e-5)
    opt = td.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(3):
        opt.step(table([2]).sum())
        assert np.linalg.norm(table([2]).numpy()) < 1.0 + 1e-5


def test_rows_of_bags_are_scaled_down_in_their_table() -> None:
    table = nn.EmbeddingBag(3, 2, max_norm=1.0, scale_grad_by_freq=True, mode="sum")
    table.weight = [[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]
    read = table([[0, 1], [0, 0]])
    (g,) = td.grad(read.sum(), [table.weight])
    np.testing.assert_allclose(read.numpy(), [[0.9, 1.2], [1.2, 1.6]], rtol=1e-5)
    scaled = [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]]
    np.testing.assert_allclose(table.weight.numpy(), scaled, rtol=1e-5)
    np.testing.assert_allclose(g.numpy(), [[1, 1], [1, 1], [0, 0]], rtol=1e-6)


def test_instance_statistics_follow_the_samples() -> None:
    layer = nn.InstanceNorm1d(2, momentum=0.5, track_running_stats=True)
    x = np.random.default_rng(0).normal(size=(3, 2, 7)).astype(np.float32)
    y = layer(x).numpy()
    np.testing.assert_allclose(y.mean(-1), np.zeros((3, 2)), atol=1e-6)
    mean, var = x.mean(-1).mean(0), x.var(-1, ddof=1).mean(0)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean / 2, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), (1 + var) / 2, rtol=1e-5)
    running = (x[0] - mean[:, None] / 2) / np.sqrt((1 + var) / 2 + 1e-5)[:, None]
    np.testing.assert_allclose(layer.eval()(x[0]).numpy(), running, rtol=1e-4)


def test_masks_of_torch_are_the_other_way_round() -> None:
    layer = nn.MultiHeadAttention(4, 2)
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    padding, later = np.arange(10).reshape(2, 5) % 5 > 2, np.triu(np.ones((5, 5)), 1)
    y = layer(x, key_padding_mask=padding, attn_mask=later > 0)
    seen = ~padding[:, None, None, :] & (later == 0)
    assert np.array_equal(y.numpy(), layer(x, mask=seen).numpy())
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2).eval()
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2).eval()
    seen = ~padding[:, None, None, :]
    by_torch = encoder(x, src_key_padding_mask=padding)
    assert np.array_equal(by_torch.numpy(), encoder(x, seen).numpy())
    by_torch = decoder(x, x, memory_key_padding_mask=padding)
    assert np.array_equal(by_torch.numpy(), decoder(x, x, memory_mask=seen).numpy())


def test_arguments_stand_in_torchs_order() -> None:
    """What is given by place alone means what it does there, or is refused."""
    f, x = nn.functional, np.arange(4, dtype=np.float32)[None, None]
    w = np.array([[[1.0, 10.0]]], np.float32)
    y = f.conv_transpose1d(x[..., 1:3], w, None, 2, 0, 0, 1, 2)  # dilation comes last
    assert y.tolist() == [[[1.0, 0.0, 12.0, 0.0, 20.0]]]
    assert nn.Upsample(6)(x).shape == (1, 1, 6)  # the size, not how many times it
    logits, weight = np.log([[1.0, 2, 5], [3, 4, 1], [2, 2, 4]]), [0.0, 1.0, 3.0]
    want = -(logits[0, 1] - np.log(8) + 3 * (logits[2, 2] - np.log(8))) / 4
    labels = [1, 0, 2]  # as many as classes: nothing but the place tells weights
    for loss in (
        f.cross_entropy(logits, labels, weight),
        nn.CrossEntropyLoss(weight)(logits, labels),
        f.nll_loss(td.log_softmax(logits), labels, weight),
    ):
        assert float(loss) == pytest.approx(want)
    by_place = [
        (td.optim.SGD, (0.9, 0.5, 0.25), ("momentum", "dampening", "weight_decay")),
        (td.optim.Adagrad, (0.9, 0.5), ("lr_decay", "weight_decay")),
    ]
    for optimizer, given, names in by_place:
        (group,) = optimizer([td.Parameter(x)], 0.1, *given).param_groups
        assert tuple(group[name] for name in names) == given


def test_rms_norm_has_the_epsilon_of_its_dtype() -> None:
    x = np.array([[1e-4, -1e-4]])
    for dtype in ("float32", "float64"):
        eps = float(np.finfo(dtype).eps)
        y = nn.RMSNorm(2, dtype=dtype)(td.asarray(x, dtype))
        np.testing.assert_allclose(y.numpy(), x / np.sqrt(1e-8 + eps), rtol=1e-5)
