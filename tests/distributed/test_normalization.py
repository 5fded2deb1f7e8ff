"""SyncBatchNorm: ranks normalize by what all of them have, as one process would."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.distributed.jobs import NEEDS_MPI, ranks

PARTS = """
sizes = [[5, 3], [1, 7]][int(sys.argv[1])]
x = np.random.default_rng(0).normal(size=(8, 3, 2)) * [[[1.0], [5.0], [0.1]]] + 100.0
y = np.random.default_rng(1).normal(size=(8, 3, 2))
first = sum(sizes[: rank()])
rows = slice(first, first + sizes[rank()]) if size() > 1 else slice(None)
layer = td.nn.BatchNorm1d(3, dtype=td.float64)
layer = td.distributed.SyncBatchNorm.convert_sync_batchnorm(layer)
layer.weight.assign([1.0, 2.0, 3.0])
inputs = td.param("x", init=x[rows])
for _ in range(2):
    out = layer(inputs)
    loss = (td.tanh(out) * y[rows]).sum()
    gradients = td.grad(loss, [inputs, layer.weight, layer.bias])
    out, gradients = td.evaluate(out, gradients)
state = {k: v.tolist() for k, v in layer.state_dict().items()}
tell([out.tolist(), [g.tolist() for g in gradients], state])
"""


@NEEDS_MPI
@pytest.mark.parametrize("sizes", ["0", "1"])
def test_ranks_come_to_what_one_process_has(sizes: str) -> None:
    ((out, (gx, *sums), state),) = ranks(1, PARTS, sizes)
    every = ranks(2, PARTS, sizes)
    close = {"rtol": 1e-7, "atol": 1e-9}
    for k, (wanted, place) in enumerate([(out, 0), (gx, None)]):
        parts = [e[0] if place == 0 else e[1][0] for e in every]
        found = np.concatenate([np.reshape(p, (-1, 3, 2)) for p in parts])
        np.testing.assert_allclose(found, wanted, err_msg=str(k), **close)
    for k, wanted in enumerate(sums):
        found = np.sum([e[1][1 + k] for e in every], 0)
        np.testing.assert_allclose(found, wanted, **close)
    for _, _, own in every:
        assert own == every[0][2]
        for name, wanted in state.items():
            np.testing.assert_allclose(own[name], wanted, err_msg=name, **close)


TRAIN = """
x = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
y = np.random.default_rng(1).integers(0, 3, 24)
td.set_options(seed=3)
net = td.nn.Sequential(td.nn.Linear(4, 8), td.nn.BatchNorm1d(8), td.nn.ReLU(),
                       td.nn.Linear(8, 3))
if size() > 1:
    net = td.distributed.SyncBatchNorm.convert_sync_batchnorm(net)
opt = td.distributed.DataParallel(td.optim.SGD(lr=0.1, momentum=0.9), net)
rows = slice(rank() * 24 // size(), (rank() + 1) * 24 // size())
for _ in range(6):
    opt.step(td.nn.functional.cross_entropy(net(td.constant(x[rows])), y[rows]))
tell({k: v.tolist() for k, v in net.state_dict().items()})
"""


@NEEDS_MPI
def test_training_is_that_of_one_process_with_the_whole_batch() -> None:
    (alone,) = ranks(1, TRAIN)
    for found in ranks(2, TRAIN):
        assert found.keys() == alone.keys()
        for name, wanted in alone.items():
            np.testing.assert_allclose(
                found[name], wanted, 2e-4, 2e-5, err_msg=name
            )  # float32, in another order


def test_a_network_is_converted_with_what_it_has() -> None:
    norm = td.nn.BatchNorm2d(2, eps=0.1, momentum=None, affine=False)
    net = td.nn.Sequential(td.nn.Conv2d(1, 2, 3), norm, td.nn.ReLU())
    net([[[[1.0, 2.0, 3.0]] * 3]] * 2)
    net.eval()
    state = net.state_dict()
    assert td.distributed.SyncBatchNorm.convert_sync_batchnorm(net) is net
    layer = net[1]
    assert type(layer) is td.distributed.SyncBatchNorm and not layer.training
    assert (layer.eps, layer.momentum, layer.weight) == (0.1, None, None)
    assert layer.running_mean is norm.running_mean
    for name, wanted in net.state_dict().items():
        np.testing.assert_array_equal(wanted, state[name])


def test_one_rank_normalizes_as_batch_normalization_does() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32)
    one, other = td.nn.BatchNorm1d(3), td.distributed.SyncBatchNorm(3)
    assert one(x).numpy().tobytes() == other(x).numpy().tobytes()
    for name, wanted in one.state_dict().items():
        assert other.state_dict()[name].tobytes() == wanted.tobytes()


def test_torch_s_name_says_where_it_is() -> None:
    with pytest.raises(AttributeError, match=r"td\.distributed\.SyncBatchNorm"):
        _ = td.nn.SyncBatchNorm
