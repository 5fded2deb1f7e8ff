"""Agreement: ranks compare what has to be the same on all of them."""

from __future__ import annotations

import difflib
import json
import platform
from collections.abc import Mapping

import numpy as np

from treadle.base.options import current
from treadle.distributed.communicator import Communicator, DistributedError
from treadle.engines.native.system.host import host

__all__ = ["agree", "machine"]


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


def agree(comm: Communicator, facts: Mapping[str, str]) -> None:
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
                    hint="start the same program, of the same versions, on all ranks",
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
