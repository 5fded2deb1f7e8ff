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


NAMED = """
import importlib, pkgutil, treadle as td
from treadle.graph.op import registry
from treadle.graph.table import _OPS
for module, names in _OPS.items():
    shown = set(importlib.import_module(f"treadle.ops.{module}").__all__)
    assert shown == set(names.split()) or not names, module
whole = set(registry.whole())
for module in pkgutil.iter_modules(td.ops.__path__, "treadle.ops."):
    importlib.import_module(module.name)
assert set(registry) == whole and registry["CTC"].__name__ == "CTC"
"""
# A finder that runs as a handler does, in the midst of a module's own loading.
INTERRUPTED = """
import sys, treadle as td
from treadle.graph.table import functions
class Handler:
    def find_spec(self, name, *_):
        if name == "treadle.ops.naming":  # which upsampling imports
            sys.meta_path.remove(self)
            functions.upsample
sys.meta_path.insert(0, Handler())
try:
    functions.upsample
except td.StateError as error:
    assert "upsample is being loaded" in str(error) and "signal" in str(error)
else:
    raise AssertionError
assert functions.upsample is functions.upsample
from treadle.ops import pooling, pool
del sys.modules["treadle.ops.pool"]  # as of an import that an error has ended
import treadle.ops.pool as second
assert second is not pool and second.MaxPool is not pool.MaxPool
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


def test_late_modules_have_the_names_of_the_table_and_the_registry_all_ops() -> None:
    fresh(NAMED)


def test_a_name_asked_for_while_its_module_loads_is_refused_and_loads_later() -> None:
    fresh(INTERRUPTED)
