"""What inner code looks up by name is there, whatever has been loaded before."""

import re
import subprocess
import sys
from pathlib import Path

import treadle

ROOT = Path(treadle.__file__).parent

ALL = """
import sys
import treadle
from treadle.graph.table import functions
missing = [name for name in sys.argv[1:] if not callable(getattr(functions, name))]
assert not missing, missing
"""
STABLE = """
import treadle as td
x = td.asarray([0.0, 1e4])
with td.options(engine="reference"):
    y, (g,) = td.log(td.exp(x)).sum(), td.grad(td.log(td.exp(x)).sum(), [x])
    assert td.evaluate(y, g)[1].tolist() == [1.0, 1.0]
"""


def fresh(program: str, *arguments: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_function_that_inner_code_names_is_provided() -> None:
    named = re.compile(r"(?<![\w.])functions\.([a-z]\w*)\(")
    texts = [path.read_text() for path in ROOT.rglob("*.py")]
    users = [text for text in texts if "graph.table import" in text]
    names = sorted({name for text in users for name in named.findall(text)})
    assert len(names) > 20
    fresh(ALL, *names)


def test_a_first_gradient_on_the_reference_engine_loads_the_rules() -> None:
    fresh(STABLE)
