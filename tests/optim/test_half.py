"""Parameters of 16 bits: master copies in every optimizer, loss scaling, grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn, optim
from treadle.nn import functional as F

HALF = ["float16", "bfloat16"]
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p, **k: optim.SGD(p, lr=1e-3, **k),
    "SGD with momentum and decay": lambda p, **k: optim.SGD(
        p, lr=1e-3, momentum=0.9, weight_decay=0.01, **k
    ),
    "Nesterov": lambda p, **k: optim.Nesterov(p, lr=1e-3, **k),
    "Adagrad": lambda p, **k: optim.Adagrad(p, lr=1e-3, **k),
    "Adadelta": lambda p, **k: optim.Adadelta(p, **k),
    "RMSProp": lambda p, **k: optim.RMSProp(p, lr=1e-3, **k),
    "Adam": lambda p, **k: optim.Adam(p, lr=1e-4, **k),
    "AdamW": lambda p, **k: optim.AdamW(p, lr=1e-4, weight_decay=0.1, **k),
    "AMSGrad": lambda p, **k: optim.AMSGrad(p, lr=1e-4, **k),
    "CyclicalSGD": lambda p, **k: optim.CyclicalSGD(p, **k),
    "ExponentiatedGradient": lambda p, **k: optim.ExponentiatedGradient(
        p, lr=1e-3, **k
    ),
}
START = np.array([[0.5, 0.2, 0.3], [0.1, 0.7, 0.2]])
PULL = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], "f4")


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_moves_a_master_copy(name: str, dtype: str) -> None:
    make = OPTIMIZERS[name]
    p = td.param("p", init=START, dtype=dtype)
    q = td.param("q", init=p.numpy().astype("f4"))
    one, two = make([p]), make([q])
    # The gradient is PULL in both, so that only what is kept differs.
    for _ in range(60):
        one.step((p.astype("float32") * PULL).sum())
        two.step((q * PULL).sum())
    master = one.state_dict()["p/master"]
    assert master.dtype == np.float32
    np.testing.assert_allclose(master, q.numpy(), rtol=2e-5)
    assert p.numpy().tobytes() == master.astype(p.dtype).tobytes()
    assert "q/master" not in two.state_dict()


@pytest.mark.parametrize("dtype", HALF)
def test_small_updates_are_lost_without_a_master(dtype: str) -> None:
    found = []
    for masters in (True, False):
        p = td.param("p", init=np.ones(3), dtype=dtype)
        opt = optim.SGD([p], lr=1e-4, masters=masters)
        for _ in range(400):
            opt.step(p.sum())
        assert ("p/master" in opt.state_dict()) == masters
        found.append(p.numpy().astype("f8"))
    unit = 1e-3 if dtype == "float16" else 8e-3
    np.testing.assert_allclose(found[0], 0.96, atol=unit)
    assert (found[1] == 1.0).all()


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
@pytest.mark.parametrize("dtype", HALF)
def test_masters_go_through_files_to_the_bit(
    tmp_path: Path, dtype: str, ending: str
) -> None:
    def begun() -> tuple[nn.Linear, optim.Adam]:
        with td.options(seed=1):
            net = nn.Linear(5, 3).astype(dtype)
        return net, optim.Adam(net.parameters(), lr=1e-3)

    x = td.asarray(np.random.default_rng(0).normal(size=(4, 5)), dtype)
    net, opt = begun()
    for _ in range(5):
        opt.step((net(x).astype("float32") ** 2).mean())
    td.save(tmp_path / f"run.{ending}", {"net": net, "opt": opt})
    again, other = begun()
    td.load(tmp_path / f"run.{ending}", {"net": again, "opt": other})
    for _ in range(5):
        for n, o in ((net, opt), (again, other)):
            o.step((n(x).astype("float32") ** 2).mean())
    for one, two in ((net, again), (opt, other)):
        a, b = one.state_dict(), two.state_dict()
        assert a.keys() == b.keys()
        for name, array in a.items():
            assert array.dtype == b[name].dtype
            assert array.tobytes() == b[name].tobytes(), name
    assert any(name.endswith("/master") for name in opt.state_dict())


def test_a_parameter_assigned_from_elsewhere_counts() -> None:
    p = td.param("p", init=np.ones(3), dtype="float16")
    opt = optim.SGD([p], lr=0.25)
    opt.step(p.sum())
    p.assign(np.array([5.0, 0.75, -2.0]))
    opt.step(p.sum())
    assert p.tolist() == [4.75, 0.5, -2.25]


def test_rows_of_a_table_have_masters_too() -> None:
    p = td.param("p", init=np.ones((4, 2)), dtype="float16", sparse=True)
    opt = optim.Adagrad([p], lr=1e-4)
    for _ in range(50):
        opt.step(td.rows(p, [1, 3]).astype("float32").sum())
    master = opt.state_dict()["p/master"]
    assert (master[[0, 2]] == 0).all() and (p.numpy()[[0, 2]] == 1).all()
    assert (master[[1, 3]] < 1).all()


def trained(dtype: str, scale: Any, steps: int = 120) -> tuple[list[float], nn.Module]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(96, 8)).astype("f4")
    labels = (x[:, :3] @ rng.normal(size=(3, 4))).argmax(1)
    with td.options(seed=2):
        net = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 4))
    net.astype(dtype)
    given = td.asarray(x, dtype)
    opt = optim.Adam(lr=0.01, loss_scale=scale, on_nan="scale down" if scale else None)
    losses = []
    for _ in range(steps):
        logits = net(given).astype("float32")
        # So small a weight that gradients of 16 bits would vanish without a scale.
        loss = F.cross_entropy(logits, labels) * 1e-6
        losses.append(float(opt.step(loss)) * 1e6)
    return losses, net


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 0.01), ("bfloat16", 0.05)])
def test_training_in_16_bits_ends_where_float32_does(dtype: str, bound: float) -> None:
    want, _ = trained("float32", None)
    found, net = trained(dtype, optim.LossScale(2.0**20, largest=2.0**24))
    assert want[-1] < 0.2 * want[0]
    assert np.isfinite(found).all()
    assert abs(found[-1] - want[-1]) < bound
    assert {p.dtype.name for p in net.parameters()} == {dtype}


def test_float16_needs_the_loss_scale() -> None:
    without, _ = trained("float16", None, 60)
    scaled, _ = trained("float16", optim.LossScale(2.0**20), 60)
    assert scaled[-1] < 0.5 * without[-1]


@pytest.mark.parametrize("log", [False, True])
def test_rounded_weights_carry_their_error_on(log: bool) -> None:
    rng = np.random.default_rng(4)
    w = td.param("w", init=rng.normal(size=(4, 6)), dtype="float64")
    b = td.param("b", init=rng.normal(size=6), dtype="float64")
    rounded = optim.WeightQuantizer([w, b], bits=4, steps=2, log=log)
    f = td.quantize_log if log else td.quantize_fixed
    want, error, left = w.numpy(), np.zeros((4, 6)), b.numpy()
    opt = optim.SGD([w, b], lr=0.01)
    for k in range(6):
        opt.step((w * w).sum() + b.sum())
        rounded.update()
        given = want - 0.01 * 2 * want + error
        want = f(td.asarray(given, "float64"), 4, steps=2).numpy()
        error = given - want if k else 0 * given
        np.testing.assert_allclose(w.numpy(), want, atol=1e-12)
        np.testing.assert_allclose(rounded.errors[0].numpy(), error, atol=1e-12)
    np.testing.assert_allclose(b.numpy(), left - 0.06, atol=1e-12)
    again = optim.WeightQuantizer([w, b], bits=4, steps=2, log=log)
    again.load_state_dict(rounded.state_dict())
    assert again.state_dict()["w/error"].tobytes() == error.tobytes() or np.allclose(
        again.state_dict()["w/error"], error, atol=1e-12
    )


def test_a_network_learns_on_a_grid_of_15_values() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(128, 6)).astype("f4")
    labels = (x @ rng.normal(size=(6, 3))).argmax(1)
    found = []
    for feedback in (None, True):
        with td.options(seed=6):
            net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        opt = optim.Adam(lr=0.01)
        rounded = optim.WeightQuantizer(net.parameters(), bits=4)
        for _ in range(150):
            loss = opt.step(F.cross_entropy(net(x), labels))
            if feedback:
                rounded.update()
        found.append(float(loss))
    assert all(len(np.unique(net[k].weight.numpy())) <= 15 for k in (0, 2))
    assert found[1] < found[0] + 0.15
