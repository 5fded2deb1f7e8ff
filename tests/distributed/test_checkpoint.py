"""Snapshots that ranks write together: whole, or none; read on any number of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from tests.distributed import campaign
from tests.distributed.jobs import NEEDS_MPI, ranks

SAVE = """
from pathlib import Path
from tests.distributed.workloads import WORKLOADS, digest, trained
from treadle.train.snapshot import restore_snapshot, save_snapshot
from treadle.io.checkpoint import load_checkpoint
folder, sharded = Path(sys.argv[1]), sys.argv[2] == "sharded"
read, write, limit = sys.argv[3] == "read", sys.argv[4] == "write", int(sys.argv[5])
model, opt = trained("images", 0 if read else 2, 4, sharded=sharded)
if read:
    restore_snapshot(folder, load_checkpoint(folder), model, opt, None)
share, said = 4 // size(), ""
import resource, signal
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
if limit and rank() == size() - 1:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
if write:
    try:
        history = {"losses": np.ones(3)}
        save_snapshot(folder, opt.updates, model, opt, None, history, {"a": 1})
    except td.TreadleError as error:
        said = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
for k in range(4):
    if k // share == rank():
        opt.step(model.loss(8 + k))
tell([digest(model, opt), said])
"""


@NEEDS_MPI
@pytest.mark.parametrize("sharded", ["plain", "sharded"])
def test_other_numbers_of_ranks_go_on_from_it(tmp_path: Path, sharded: str) -> None:
    one = ranks(1, SAVE, str(tmp_path / "a"), "plain", "", "write", "0")
    two = ranks(2, SAVE, str(tmp_path / "b"), sharded, "", "write", "0")
    manifest = json.loads((tmp_path / "b/step-2/manifest.json").read_text())
    assert {"model.0", "model.1", "optimizer.1"} < set(manifest["parts"])
    four = ranks(4, SAVE, str(tmp_path / "b"), sharded, "read", "", "0")
    alone = ranks(1, SAVE, str(tmp_path / "b"), "plain", "read", "", "0")
    assert one + two + four + alone == [[one[0][0], ""]] * 8
    a, b = td.load(tmp_path / "a/step-2"), td.load(tmp_path / "b")
    assert sorted(a) == sorted(b)
    for name, x in a.items():
        assert x.tobytes() == b[name].tobytes()
    net = td.load(tmp_path / "b", prefix="model.")
    assert "layers.0.weight" in net


@NEEDS_MPI
def test_what_one_rank_cannot_write_none_has_written(tmp_path: Path) -> None:
    ranks(2, SAVE, str(tmp_path), "sharded", "", "write", "0")
    before = td.load(tmp_path)
    found = ranks(2, SAVE, str(tmp_path), "sharded", "read", "", "0")
    for limit in (40, 1500):
        failing = SAVE.replace("opt.updates, model", "7, model")
        words = str(tmp_path), "sharded", "read", "write", str(limit)
        broken = ranks(2, failing, *words)
        assert all("rank 1: " in said for _, said in broken)
        assert [bits for bits, _ in broken] == [bits for bits, _ in found]
        assert [p.name for p in tmp_path.iterdir()] == ["step-2"]
    after = td.load(tmp_path)
    assert all(np.array_equal(x, after[k]) for k, x in before.items())


def test_a_folder_without_a_snapshot_is_told(tmp_path: Path) -> None:
    with pytest.raises(td.ModelFileError, match="holds no snapshot"):
        td.load(tmp_path)


@NEEDS_MPI
@pytest.mark.parametrize("kind", ["kill", "disk"])
def test_disturbed_trainings_come_to_their_bits(kind: str) -> None:
    assert campaign.main([kind, "--count", "1", "--seed", "1"]) == 0
