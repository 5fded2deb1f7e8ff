"""Branches that differ by rank: what a training on two ranks comes to, beside the same
shards in one process, in Treadle and under torch's wrappers.

    python -m tests.distributed.branches [--torch PYTHON]

A network has a layer that all shards use, one that every other shard uses, and one that
the others do. With --torch its Python runs DistributedDataParallel (as it is, and told
to look for unused parameters), FullyShardedDataParallel and fully_shard over gloo.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
STEPS, RATE, WIDTH = 20, 0.1, 8
NAMES = ("first", "even", "odd", "last")
LIMIT = 60  # seconds


def weights() -> dict[str, np.ndarray[Any, Any]]:
    """The first weights, of every implementation."""
    draws = np.random.default_rng(0)
    return {k: draws.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 3 for k in NAMES}


def batch(step: int, shard: int) -> np.ndarray[Any, Any]:
    """The inputs of a shard."""
    draws = np.random.default_rng(1 + 2 * step + shard)
    return draws.normal(size=(4, WIDTH)).astype(np.float32)


def branch(step: int, shard: int) -> str:
    """The layer that a shard uses: in some steps both use the same one."""
    return ("even", "odd")[shard if step % 4 else 0]


def in_numpy() -> dict[str, np.ndarray[Any, Any]]:
    """The weights in double precision, by derivatives written out."""
    w = {k: x.astype(np.float64) for k, x in weights().items()}
    for step in range(STEPS):
        total = {k: np.zeros_like(x) for k, x in w.items()}
        for shard in range(2):
            x, name = batch(step, shard).astype(np.float64), branch(step, shard)
            a = np.tanh(x @ w["first"].T)
            b = np.tanh(a @ w[name].T)
            g = 2 * (b @ w["last"].T) / (len(x) * WIDTH)
            total["last"] += g.T @ b / 2
            g = (g @ w["last"]) * (1 - b * b)
            total[name] += g.T @ a / 2
            g = (g @ w[name]) * (1 - a * a)
            total["first"] += g.T @ x / 2
        w = {k: x - RATE * total[k] for k, x in w.items()}
    return w


def treadle() -> None:
    """One rank of Treadle's training; rank 0 writes its weights."""
    import treadle as td

    p = {k: td.param(k, init=x) for k, x in weights().items()}
    opt = td.distributed.DataParallel(td.optim.SGD(list(p.values()), lr=RATE), shards=2)
    rank, size, _ = opt.shard
    for step in range(STEPS):
        for shard in range(2)[rank::size]:
            x = td.constant(batch(step, shard))
            a = td.tanh(x @ p["first"].T)
            b = td.tanh(a @ p[branch(step, shard)].T)
            y = b @ p["last"].T
            opt.step((y * y).mean())
    if rank == 0:
        np.savez(sys.argv[2], **{k: v.numpy() for k, v in p.items()})


def torch(wrapper: str) -> None:
    """One rank of torch's training under a wrapper; rank 0 writes its weights."""
    import torch as t
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()

    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, x in weights().items():
                layer = t.nn.Linear(WIDTH, WIDTH, bias=False)
                layer.weight.data = t.from_numpy(x.copy())
                setattr(self, name, layer)

        def forward(self, x: Any, name: str) -> Any:
            a = t.tanh(self.first(x))
            return self.last(t.tanh(getattr(self, name)(a)))

    net: Any = Network()
    if wrapper.startswith("DDP"):
        net = DistributedDataParallel(net, find_unused_parameters="unused" in wrapper)
    elif wrapper == "FSDP":
        cpu = t.device("cpu")
        for name in NAMES:
            part = FullyShardedDataParallel(getattr(net, name), device_id=cpu)
            setattr(net, name, part)
        net = FullyShardedDataParallel(net, device_id=cpu)
    else:
        mesh = dist.init_device_mesh("cpu", (2,))
        for name in NAMES:
            fully_shard(getattr(net, name), mesh=mesh)
        fully_shard(net, mesh=mesh)
    opt = t.optim.SGD(net.parameters(), lr=RATE)
    for step in range(STEPS):
        opt.zero_grad()
        y = net(t.from_numpy(batch(step, rank)), branch(step, rank))
        (y * y).mean().backward()
        opt.step()
    if wrapper == "FSDP":
        with FullyShardedDataParallel.summon_full_params(net):
            found = {k: x.detach().clone() for k, x in net.named_parameters()}
    else:
        found = {
            k: getattr(x, "full_tensor", lambda x=x: x)().detach()
            for k, x in net.named_parameters()
        }
    if rank == 0:
        named = {n: x for n in NAMES for k, x in found.items() if n in k.split(".")}
        np.savez(sys.argv[2], **{k: x.numpy() for k, x in named.items()})


def outcome(words: list[list[str]], envs: list[dict[str, str]]) -> Any:
    """The weights that processes come to, or what became of them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.npz"
        runs = [
            subprocess.Popen(
                [*line, str(file)], cwd=ROOT, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, env={**os.environ, **env},
            )
            for line, env in zip(words, envs, strict=True)
        ]  # fmt: skip
        try:
            said = [run.communicate(timeout=LIMIT)[1] for run in runs]
        except subprocess.TimeoutExpired:
            return f"no end in {LIMIT} s"
        finally:
            for run in runs:
                run.kill()
                run.wait()
        if any(run.returncode for run in runs):
            lines = [x for text in said for x in text.splitlines() if "Error" in x]
            return f"fails: {lines[0][:160] if lines else said}"
        with np.load(file) as arrays:
            return dict(arrays)


def distance(found: Any, wanted: dict[str, np.ndarray[Any, Any]]) -> str:
    """The largest difference of each layer's weights."""
    if isinstance(found, str):
        return found
    return ", ".join(f"{k} {np.abs(found[k] - wanted[k]).max():.1e}" for k in NAMES)


def treadle_on(ranks: int) -> Any:
    """The weights that Treadle comes to."""
    launch = [sys.executable, "-m", "treadle", "launch", "-n", str(ranks)]
    words = [*launch, "-m", "tests.distributed.branches", "treadle"]
    return outcome([words], [{"PYTHONPATH": str(ROOT), "TREADLE_THREADS": "1"}])


def main() -> int:
    """Print a line for each implementation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", metavar="PYTHON")
    python = parser.parse_args().torch
    wanted = in_numpy()
    one, two = treadle_on(1), treadle_on(2)
    print("treadle, 1 rank:", distance(one, wanted))
    print("treadle, 2 ranks:", distance(two, wanted))
    both = isinstance(one, dict) and isinstance(two, dict)
    same = both and all(one[k].tobytes() == two[k].tobytes() for k in NAMES)
    print("equal bits:", same)
    for k, wrapper in enumerate(("DDP", "DDP unused", "FSDP", "fully_shard")):
        if python is None:
            break
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + k),
                  "WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}  # fmt: skip
        envs = [{**common, "RANK": str(r)} for r in range(2)]
        words = [python, "-m", "tests.distributed.branches", wrapper]
        print(f"{wrapper}:", distance(outcome([words] * 2, envs), wanted), flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] != "--torch":
        treadle() if sys.argv[1] == "treadle" else torch(sys.argv[1])
    else:
        raise SystemExit(main())
