"""The libraries measured: their threads, their versions, and a first touch of each."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["PACKAGES", "library_of", "prepare", "versions"]

PACKAGES = (
    "treadle", "numpy", "scipy-openblas64", "llvmlite", "torch", "jax", "dynet38"
)  # fmt: skip


def library_of(implementation: str) -> str:
    """The library of an implementation: torch of torch-channels-last.

    >>> library_of("torch-compile")
    'torch'
    """
    return implementation.split("-")[0]


def versions() -> dict[str, str]:
    """The versions of the packages this interpreter has; nothing is imported."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def prepare(implementation: str, threads: int) -> None:
    """Import the library, set its threads, and train something very small with it.

    What a library loads at its first convolution, product, optimizer or compilation
    is then not counted as memory of the workload.
    """
    touch = {
        "treadle": _treadle,
        "torch": _torch,
        "jax": _jax,
        "openblas": _openblas,
        "dynet": _dynet,
    }
    touch[library_of(implementation)](implementation, threads)


def _treadle(implementation: str, threads: int) -> None:
    import treadle as td

    td.set_options(threads=threads)
    model = td.nn.Sequential(
        td.nn.Conv2d(1, 2, 3), td.nn.ReLU(), td.nn.Flatten(), td.nn.Linear(8, 3)
    )
    loss = td.nn.functional.cross_entropy(model(td.ones((5, 1, 4, 4))), [0, 1, 2, 0, 1])
    td.optim.AdamW(lr=1e-3).step(loss)


def _torch(implementation: str, threads: int) -> None:
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 3),
    )
    if implementation.endswith("compile"):
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    labels = torch.tensor([0, 1, 2, 0, 1])
    torch.nn.functional.cross_entropy(model(torch.ones(5, 1, 4, 4)), labels).backward()
    optimizer.step()


def _jax(implementation: str, threads: int) -> None:
    jax: Any = import_module("jax")
    numpy: Any = import_module("jax.numpy")
    small = jax.jit(lambda x: numpy.tanh(x @ x).sum())
    small(numpy.ones((4, 4))).block_until_ready()


def _dynet(implementation: str, threads: int) -> None:
    config: Any = import_module("dynet_config")  # which counts before the import only
    config.set(mem=4096, random_seed=1, autobatch=implementation.endswith("autobatch"))
    dy: Any = import_module("dynet")
    model = dy.ParameterCollection()
    loss = dy.squared_norm(model.add_parameters((3, 2)) * dy.inputVector([1.0, 2.0]))
    trainer = dy.SimpleSGDTrainer(model, 0.1)
    loss.forward()
    loss.backward()
    trainer.update()


def _openblas(implementation: str, threads: int) -> None:
    numpy: Any = import_module("numpy")
    numpy.ones((64, 64), numpy.float32) @ numpy.ones((64, 64), numpy.float32)
