"""Agreement: ranks compare what has to be the same on all of them."""

from __future__ import annotations

import difflib
import json
import platform
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from treadle.base.dtypes import float64
from treadle.base.options import current
from treadle.distributed.communicator import Communicator, DistributedError
from treadle.engines.native.system.host import host
from treadle.graph.variable import Variable
from treadle.optim.optimizer import Optimizer

_SAME = "start the same program, of the same versions, on all ranks"


def machine() -> dict[str, str]:
    """The facts of a machine that decide bits beside the program."""
    processor, options = host(), current()
    return {
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "engine": options.engine,
        "dtype": options.dtype.name,
        "seed": str(options.scope.seed),
        "processor": f"{processor.triple} {processor.cpu} {processor.features}",
    }


def optimizer_text(optimizer: Optimizer) -> str:
    """An optimizer as text: its kind, the rate of now and the settings of each group,
    and its controls. It names no object, whose address each rank has of its own.

    >>> import treadle as td
    >>> print(optimizer_text(td.optim.Optimizer(lr=lambda step: 0.5, clip_norm=2.0)))
    Optimizer(clip_norm=2.0, accumulate=1)
    all parameters: lr=0.5
    """
    controls, step = optimizer.controls, optimizer.count.node().astype(float64)
    names = "clip_norm", "clip_value", "on_nan", "loss_scale", "norms", "accumulate"
    lines = [_settings({name: getattr(controls, name) for name in names})]
    lines = [f"{type(optimizer).__name__}({lines[0]})"]
    for group in optimizer.groups:
        count = "all" if group.parameters is None else len(group.parameters)
        rate = float(group.lr) if group.owns_rate else float(group.rate(step))
        settings = _settings({"lr": rate, **dict(sorted(group.settings.items()))})
        lines.append(f"{count} parameters: {settings}")
    return "\n".join(lines)


def _settings(settings: Mapping[str, Any]) -> str:
    parts = []
    for name, x in settings.items():
        if isinstance(x, Variable) and not x.shape:
            x = float(x)
        plain = isinstance(x, (bool, int, float, str, tuple, np.number))
        if x is not None:
            parts.append(f"{name}={x if plain else type(x).__name__}")
    return ", ".join(parts)


def standing(optimizer: Optimizer) -> int:
    """A number of what ranks may change between updates, and have to change alike: the
    rates that are numbers, and the seed."""
    rates = [g.own_rate for g in optimizer.groups]
    # As they are stored: to ask for a value would carry out what waits to be assigned.
    numbers = [float(np.asarray(r.node().array)) for r in rates if r is not None]
    return zlib.crc32(f"{numbers} {current().scope.seed}".encode())


def agree_on_values(comm: Communicator, named: Iterable[tuple[str, Variable]]) -> None:
    """Raise unless Variables hold the same bits on all ranks."""
    facts = {
        f"the value of {name}": f"{zlib.crc32(v.numpy().tobytes()):08x}"
        for name, v in named
    }
    agree(comm, facts, "ranks assign parameters alike, or let rank 0 broadcast them")


def agree(comm: Communicator, facts: Mapping[str, str], hint: str = _SAME) -> None:
    """Raise a DistributedError on all ranks unless each gives the same facts.

    It names the first rank that differs from rank 0, the fact and the difference.

    >>> from treadle.distributed.communicator import Alone
    >>> agree(Alone(), machine())
    """
    every = [json.loads(m) for m in comm.messages(json.dumps(dict(facts)).encode())]
    first = every[0]
    for k, other in enumerate(every):
        for name in first.keys() | other.keys():
            here, there = first.get(name), other.get(name)
            if here != there:
                raise DistributedError(
                    f"rank {k} differs from rank 0: {name} is "
                    f"{difference(str(there), str(here))}",
                    hint=hint,
                )


def difference(there: str, here: str) -> str:
    """The first difference of two texts.

    >>> difference("7", "0")
    '7, there 0'
    >>> difference("a: f32[3]\\nb: f32", "a: f32[2]\\nb: f32")
    'a: f32[3], there a: f32[2]'
    """
    if "\n" not in there + here:
        return f"{there}, there {here}"
    lines = list(difflib.ndiff(here.splitlines(), there.splitlines()))
    more = next((x[2:] for x in lines if x[0] == "+"), "nothing")
    less = next((x[2:] for x in lines if x[0] == "-"), "nothing")
    return f"{more}, there {less}"
