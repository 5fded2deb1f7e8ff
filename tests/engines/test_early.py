"""Large graphs are made by machine code before anything has run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from treadle.engines.native.objects.layout import usable

_SCRIPT = """
import sys
import treadle as td
from treadle.graph.tensor import make_node, makers

td.set_options(engine={engine!r})
z = x = td.constant(1.0)
early = makers.node is make_node
for _ in range({count}):
    z = z * x
print(early, makers.node is make_node, "treadle.engines.native.engine" in sys.modules)
assert z.depth == {count} and float(x * x) == 1.0
"""


@pytest.mark.skipif(not usable(), reason="no layout known here")
@pytest.mark.parametrize(
    ("engine", "count", "told"),
    [
        ("auto", 100, "True True False"),
        ("auto", 3000, "True False False"),
        ("reference", 3000, "True True False"),
    ],
)
def test_machine_code_makes_nodes_of_large_graphs(
    engine: str, count: int, told: str
) -> None:
    script = _SCRIPT.format(engine=engine, count=count)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == told.split()
