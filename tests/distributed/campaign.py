"""Trainings that are disturbed at random, and go on to the bits of one that was not.

    python -m tests.distributed.campaign kill --count 200 --seed 0
    python -m tests.distributed.campaign stop --count 50 --seed 0
    python -m tests.distributed.campaign disk --count 20 --seed 0
    python -m tests.distributed.campaign bits --count 1 --seed 5 --steps 100

"kill" and "stop" send SIGKILL or SIGSTOP to a random rank of 2 or 4 at a random moment,
"disk" lets a random rank write no file longer than a random size; each training goes on
on another number of ranks. "bits" compares the digests of four workloads on 1, 2 and 4
ranks, with sharded states too. A line tells each case, the seed of which repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import tempfile
import time
from typing import Any

import treadle as td
from tests.distributed.jobs import Job, ranks
from tests.distributed.workloads import WORKLOADS

TRAINING = """
import resource, signal
from tests.distributed.workloads import Images, digest
folder, sharded, limit, slow = sys.argv[1], sys.argv[2] == "1", *map(int, sys.argv[3:5])
world().timeout = float(sys.argv[5])
td.set_options(seed=2)
if limit and rank() == size() - 1:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
draws = np.random.default_rng(0)
x = draws.normal(size=(96, 6)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = td.nn.Sequential(td.nn.Linear(6, 8), td.nn.BatchNorm1d(8), td.nn.Dropout(0.2),
                       td.nn.Linear(8, 2))
opt = td.distributed.DataParallel(td.optim.Adam(lr=0.01, clip_norm=1.0), net, shards=4,
                                  sharded=sharded)
model = td.Model(net, "cross_entropy", opt, metrics=["accuracy"])
class Slow(td.train.Callback):
    def on_batch_end(self, batch, logs):
        time.sleep(slow / 1000)
calls = [Slow()]
if folder != "none":
    calls.append(td.train.BackupAndRestore(folder, every=2))
with open(os.path.join(os.path.dirname(__file__), f"pid{rank()}"), "w") as file:
    file.write(str(os.getpid()))
model.fit(x, y, batch_size=4, epochs=4, verbose=0, callbacks=calls)
tell(digest(net, opt))
"""
BITS = """
from tests.distributed.workloads import WORKLOADS, digest, trained
name, steps, sharded = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"
tell(digest(*trained(name, steps, 4, seed=int(sys.argv[4]), sharded=sharded)))
"""
TIMEOUT = 5.0


def disturbed(kind: str, seed: int, wanted: str) -> str:
    """One case: what was done, and whether the training came to its bits."""
    draws = random.Random(f"{kind} {seed}")
    count, sharded = draws.choice([2, 4]), draws.choice("01")
    victim, moment = draws.randrange(count), draws.uniform(0.0, 2.0)
    limit = draws.randrange(1, 4000) if kind == "disk" else 0
    with tempfile.TemporaryDirectory() as folder:
        words = sharded, str(limit), "20", str(TIMEOUT)
        job = Job(count, TRAINING, folder, *words)
        if kind != "disk":
            strike(job, victim, moment, kind)
        begin = time.monotonic()
        code, text = job.finish()
        seconds = time.monotonic() - begin
        snapshots = [name for name in os.listdir(folder) if name.startswith("step-")]
        for name in snapshots:
            td.load(os.path.join(folder, name))
        other = draws.choice([1, 2, 4])
        found = ranks(other, TRAINING, folder, draws.choice("01"), "0", "0", "60")
    well = set(found) == {wanted} and (kind != "stop" or code == 0 or seconds < 60)
    what = f"rank {victim} of {count} after {moment:.2f} s" if not limit else ""
    what = what or f"{limit} bytes on rank {count - 1} of {count}"
    return (
        f"{kind} {seed}: {what}, status {code} {seconds:.1f} s later, "
        f"{len(snapshots)} snapshots, on {other} ranks: "
        f"{'equal bits' if well else 'FAILED ' + text[-500:]}"
    )


def strike(job: Job, victim: int, moment: float, kind: str) -> None:
    """Send a signal to a rank, some time after it has begun to train."""
    file = os.path.join(job.folder.name, f"pid{victim}")
    end = time.monotonic() + 100
    while not (os.path.exists(file) and os.path.getsize(file)):
        if time.monotonic() > end or job.process.poll() is not None:
            return
        time.sleep(0.01)
    time.sleep(moment)
    with open(file) as text:
        pid = int(text.read())
    with contextlib.suppress(ProcessLookupError):  # it has come to its end
        os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)


def bits(steps: int, seed: int) -> int:
    """Compare the digests of 1, 2 and 4 ranks; how many differ."""
    wrong = 0
    for name in WORKLOADS:
        (alone,) = ranks(1, BITS, name, str(steps), "0", str(seed), longest=3600)
        for count, sharded in [(1, "1"), (2, "0"), (2, "1"), (4, "0"), (4, "1")]:
            words = name, str(steps), sharded, str(seed)
            well = set(ranks(count, BITS, *words, longest=3600)) == {alone}
            wrong += not well
            states = "sharded" if sharded == "1" else "whole"
            what = f"{name}, seed {seed}, {steps} updates, {count} ranks, {states}"
            print(f"{what} states: {'equal' if well else 'DIFFERENT'}", flush=True)
    return wrong


def main(argv: list[str] | None = None) -> int:
    """How many cases failed, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["kill", "stop", "disk", "bits"])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    given: Any = parser.parse_args(argv)
    if given.kind == "bits":
        every = range(given.seed, given.seed + given.count)
        return min(sum(bits(given.steps, seed) for seed in every), 100)
    (wanted,) = ranks(1, TRAINING, "none", "0", "0", "0", "60")
    failed = 0
    for seed in range(given.seed, given.seed + given.count):
        line = disturbed(given.kind, seed, wanted)
        failed += "FAILED" in line
        print(line, flush=True)
    return min(failed, 100)


if __name__ == "__main__":
    raise SystemExit(main())
