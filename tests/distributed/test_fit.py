"""Model.fit over ranks: the weights, logs and snapshots of one; what one rank does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle as td
from tests.distributed.jobs import NEEDS_MPI, Job, ranks

FIT = """
import hashlib
folder, epochs, kill = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
td.set_options(seed=2)
draws = np.random.default_rng(0)
x = draws.normal(size=(100, 6)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = td.nn.Sequential(td.nn.Linear(6, 8), td.nn.ReLU(), td.nn.Dropout(0.2),
                       td.nn.Linear(8, 2))
opt = td.distributed.DataParallel(td.optim.Adam(lr=0.01), net, shards=4)
model = td.Model(net, "cross_entropy", opt, metrics=["accuracy"])
class Kill(td.train.Callback):
    def on_batch_end(self, batch, logs):
        if rank() == size() - 1 and self.fit.epoch == 2 and batch == kill:
            os.kill(os.getpid(), 9)
calls = [Kill()]
if folder != "none":
    calls.append(td.train.BackupAndRestore(folder, every=2))
history = model.fit(x, y, batch_size=4, epochs=epochs, verbose=1, callbacks=calls,
                    validation_data=(x[:20], y[:20]))
bits = hashlib.sha256()
for name, value in {**net.state_dict(), **opt.state_dict()}.items():
    bits.update(name.encode() + value.tobytes())
tell([bits.hexdigest(), {k: v[-1] for k, v in history.history.items()}])
"""


@NEEDS_MPI
def test_weights_and_logs_are_those_of_one_rank() -> None:
    (alone,) = ranks(1, FIT, "none", "3", "-1")
    for count in (2, 4):
        assert ranks(count, FIT, "none", "3", "-1") == [alone] * count


STEPS = """
folder, epochs = sys.argv[1], int(sys.argv[2])
td.set_options(seed=2)
x = np.random.default_rng(0).normal(size=(100, 6)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = td.nn.Sequential(td.nn.Linear(6, 8), td.nn.Dropout(0.2), td.nn.Linear(8, 2))
opt = td.distributed.DataParallel(td.optim.Adam(lr=0.01), net, shards=4)
model = td.Model(net, "cross_entropy", opt)
class Kill(td.train.Callback):
    def on_batch_begin(self, batch):
        if sys.argv[3] == "kill" and self.fit.epoch == 1 and batch * size() == 8:
            time.sleep(0.5)
            sys.exit("killed")
calls = [td.train.BackupAndRestore(folder, every=1), Kill()]
history = model.fit(x, y, batch_size=4, epochs=epochs, steps_per_epoch=16, verbose=0,
                    callbacks=calls)
names = sorted(os.listdir(folder))
bits = b"".join(v.tobytes() for v in net.state_dict().values()).hex()
tell([bits, history.history["loss"], opt.updates, names])
"""


@NEEDS_MPI
def test_steps_of_an_epoch_are_those_of_all_ranks_after_a_restart_too(
    tmp_path: Path,
) -> None:
    folders = [str(tmp_path / name) for name in "abc"]
    (tmp_path / "a").mkdir()
    (alone,) = ranks(1, STEPS, folders[0], "3", "")
    assert alone[2] == 12  # updates of 4 shards
    for first, second, folder in ((1, 4, "b"), (2, 1, "c")):
        (tmp_path / folder).mkdir()
        words = str(tmp_path / folder), "3"
        with pytest.raises(AssertionError, match="killed"):
            ranks(first, STEPS, *words, "kill")
        assert ranks(second, STEPS, *words, "") == [alone] * second


def test_an_epoch_is_whole_updates() -> None:
    net = td.nn.Linear(2, 1)
    opt = td.distributed.DataParallel(td.optim.SGD(), net, shards=4)
    x = np.zeros((8, 2), np.float32)
    with pytest.raises(td.ArgumentError, match="6 batches is no whole number of"):
        td.Model(net, "mse", opt).fit(x, x[:, :1], steps_per_epoch=6)


EVALUATE = """
draws = np.random.default_rng(0)
x = draws.normal(size=(101, 6)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
td.set_options(seed=2)
class Noisy(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = td.nn.Linear(6, 2), 0
    def forward(self, x):
        self.calls += not self.training
        return self.layer(x) + 0.1 * td.random.normal((x.shape[0], 2))
net = Noisy()
opt = td.distributed.DataParallel(td.optim.Adam(lr=0.01), net, shards=4)
model = td.Model(net, "cross_entropy", opt, metrics=["accuracy"])
D = td.data
sharded = D.Loader(D.ArrayDataset(x[:96], y[:96]), 8, shuffle=False, shard=opt.shard)
found = [model.evaluate(x, y, batch_size=8), model.evaluate(x, y, steps=3),
         model.evaluate(iter([(x[:50], y[:50]), (x[50:], y[50:])])),
         model.evaluate(sharded),
         model.evaluate(sharded, steps=5), model.evaluate(x[:3], y[:3])]
calls = net.calls
found.append(model.fit(x, y, batch_size=4, epochs=2, verbose=0, validation_split=0.3,
                       validation_steps=2).history)
tell([found, calls])
"""


@NEEDS_MPI
def test_ranks_evaluate_their_share_with_the_bits_of_one() -> None:
    ((alone, calls),) = ranks(1, EVALUATE)
    assert calls == 13 + 3 + 2 + 12 + 5 + 1
    for count in (2, 4):
        every = ranks(count, EVALUATE)
        assert [found for found, _ in every] == [alone] * count
        assert sum(own for _, own in every) == calls


@NEEDS_MPI
def test_a_training_goes_on_after_a_kill_on_any_number_of_ranks(tmp_path: Path) -> None:
    (alone,) = ranks(1, FIT, "none", "4", "-1")
    job = Job(2, FIT, str(tmp_path), "4", "2")
    code, text = job.finish()
    assert code != 0 and not job.told()
    assert text.count("epoch 1/4: ") == 1  # rank 0 speaks
    assert [bits for bits, _ in ranks(4, FIT, str(tmp_path), "4", "-1")] == [
        alone[0]
    ] * 4


WRITES = """
folder = os.path.join(sys.argv[1], str(rank()))
os.makedirs(folder)
x = np.random.default_rng(0).normal(size=(32, 6)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = td.nn.Linear(6, 2)
opt = td.distributed.DataParallel(td.optim.Adam(lr=0.01), net, shards=2)
calls = td.train
heard = []
model = td.Model(net, "cross_entropy", opt)
model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[
    calls.ModelCheckpoint(folder + "/best.npz", "loss", save_best_only=True),
    calls.ModelCheckpoint(folder + "/{step}.npz", every=2),
    calls.CSVLogger(folder + "/log.csv"),
    calls.TensorBoard(folder + "/board", every=1, hparams={"lr": 0.01}),
    calls.Report(folder + "/report.html", (x, y)),
    calls.LambdaCallback(on_epoch_end=lambda epoch, logs: heard.append(epoch))])
tell([sorted(os.listdir(folder)), heard])
"""


@NEEDS_MPI
def test_files_of_callbacks_are_written_by_the_first_rank_alone(tmp_path: Path) -> None:
    (names, heard), (none, other) = ranks(2, WRITES, str(tmp_path))
    assert {"best.npz", "2.npz", "log.csv", "board", "report.html"} <= set(names)
    assert none == [] and heard == other == [0, 1]


@NEEDS_MPI
def test_what_rank_0_fails_to_do_ends_all() -> None:
    program = """
    d = td.distributed
    made = d.once(lambda: 7)
    try:
        d.once(lambda: 1 / 0)
    except ZeroDivisionError as error:
        tell([made, str(error)])
    except d.DistributedError as error:
        tell([made, error.message])
    """
    first, second = ranks(2, program)
    assert first == [7, "division by zero"]
    assert second[0] is None and "ZeroDivisionError: division by zero" in second[1]


def test_one_rank_sees_its_own_error() -> None:
    with pytest.raises(ZeroDivisionError):
        td.distributed.once(lambda: np.int64(1 // 0))
