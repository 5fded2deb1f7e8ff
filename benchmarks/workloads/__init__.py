"""The workloads that are run beside peers, by name."""

from __future__ import annotations

from importlib import import_module

from benchmarks.workload import Workload

__all__ = ["NAMES", "ORDINARY", "workload"]

ORDINARY = (
    "spellings", "gan", "policy", "dqn", "pinn", "gp", "vae", "gnn", "lengths",
    "seq2seq", "sampling", "element", "logp", "scan", "recurrent",
)  # fmt: skip
NAMES = (
    "lenet", "owl", "tree", "tagger", "rnnlm", "ragged", "gpt", "resnet",
    "elementwise", "contraction", *ORDINARY,
)  # fmt: skip


def workload(name: str) -> Workload:
    """The workload of a name; its file is imported when it is asked for."""
    if name not in NAMES:
        raise ValueError(f"there is no workload {name!r}; there are {', '.join(NAMES)}")
    found: Workload = import_module(f"benchmarks.workloads.{name}").WORKLOAD
    return found
