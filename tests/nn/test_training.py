"""Networks, initializers and optimizers together: they learn, and alike twice."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle import nn
from treadle.nn import functional as F


def trained(seed: int) -> tuple[nn.Sequential, float]:
    with td.options(seed=seed):
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(16, 2),
        )
        rng = np.random.default_rng(0)
        images = rng.normal(size=(24, 1, 4, 4)).astype(np.float32)
        labels = (images.mean((1, 2, 3)) > 0).astype(np.int64)
        optimizer = td.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(60):
            loss = optimizer.step(F.cross_entropy(net(images), labels))
        net.eval()
        found = net(images).numpy().argmax(1)
    return net, float(loss) if (found == labels).mean() > 0.9 else np.inf


def test_a_small_network_learns_and_twice_the_same() -> None:
    (one, first), (two, second) = trained(1), trained(1)
    assert first < 0.35 and first == second
    for name, array in one.state_dict().items():
        assert array.tobytes() == two.state_dict()[name].tobytes(), name
    other, _ = trained(2)
    assert other[0].weight.numpy().tobytes() != one[0].weight.numpy().tobytes()


def test_training_goes_on_from_saved_state() -> None:
    x = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)

    def steps(net: nn.Module, optimizer: td.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            optimizer.step((net(x) ** 2).mean())

    one = nn.Linear(3, 2)
    first = td.optim.AdamW(one.parameters(), lr=0.1)
    steps(one, first, 3)
    two = nn.Linear(3, 2)
    second = td.optim.AdamW(two.parameters(), lr=0.7)
    two.load_state_dict(one.state_dict())
    second.load_state_dict(first.state_dict())
    steps(one, first, 3)
    steps(two, second, 3)
    assert one.weight.numpy().tobytes() == two.weight.numpy().tobytes()
    assert second.lr == first.lr


def test_averages_take_a_module() -> None:
    net = nn.Linear(2, 2)
    mean = td.optim.ExponentialAverage(net, 0.5)
    before = net.weight.numpy()
    mean.update()
    td.optim.SGD(lr=0.1).step(net(td.ones((1, 2))).sum())
    mean.update()
    after = net.weight.numpy()
    with mean.swapped():
        np.testing.assert_allclose(net.weight.numpy(), (before + after) / 2, rtol=1e-6)
    assert net.weight.numpy().tobytes() == after.tobytes()


def test_a_traced_step_is_the_same_training() -> None:
    x = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    nets = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers = [td.optim.Adam(n.parameters(), lr=0.1, clip_norm=1.0) for n in nets]

    @td.function
    def train(x: td.Tensor) -> td.Tensor:
        return optimizers[1].step((nets[1](x) ** 4).mean())

    for _ in range(3):
        a = optimizers[0].step((nets[0](x) ** 4).mean())
        b = train(td.asarray(x))
        assert float(a) == float(b)
    state = nets[1].state_dict()
    for name, array in nets[0].state_dict().items():
        assert array.tobytes() == state[name].tobytes(), name
    assert train.count == 1
