"""The package as its users meet it: names, types, optional packages, metadata."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import treadle as td
from treadle.base.names import listed

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [td, td.nn, td.nn.functional, td.optim, td.optim.schedules]
PACKAGES += [td.data, td.io, td.train, td.distributed]
PACKAGES += [td.fft, td.linalg, td.random, td.nn.init, td.nn.utils]


def test_a_star_takes_no_name_of_python() -> None:
    names: dict[str, object] = {}
    exec("from treadle import *", names)
    names.pop("__builtins__")
    assert not [name for name in names if hasattr(builtins, name)]
    assert {"Tensor", "nn", "optim", "exp", "grad", "Model", "load"} <= set(names)
    assert not {"random", "io", "base", "graph", "engines"} & set(names)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda m: m.__name__)
def test_what_a_package_lists_is_its_users(package: ModuleType) -> None:
    names = dir(package)
    assert set(package.__all__) <= set(names)
    assert not [name for name in names if name[:1] == "_"]
    modules = {n for n in names if isinstance(getattr(package, n), ModuleType)}
    assert modules <= {
        "data", "distributed", "fft", "functional",
        "init", "io", "linalg", "moves", "nn", "optim",
        "penalty", "random", "rules", "schedules", "train", "transform", "utils",
    }  # fmt: skip
    for name in package.__all__:
        getattr(package, name)


def test_listed_leaves_out_modules_that_are_not_given() -> None:
    assert listed({"os": re, "x": 1}) == ["x"] == listed({"x": 1, "_y": 2})
    assert listed({"os": re, "x": 1}, ["os"]) == ["os", "x"]


def test_public_names_import_as_modules() -> None:
    program = """
import treadle.fft as fft, treadle.linalg as linalg, treadle.random
import treadle.nn.functional as F, treadle.nn.init, treadle.nn.utils
import treadle.optim as optim, treadle.optim.schedules
import treadle.io, treadle.train, treadle.distributed
from treadle.data import Loader
from treadle.linalg import norm
import treadle as td
assert fft is td.fft and linalg is td.linalg and treadle.random is td.random
assert F is td.nn.functional and optim is td.optim and norm is td.linalg.norm
assert dir(linalg) == sorted(linalg.__all__)
try:
    norm("x")
except td.TreadleError:
    raise SystemExit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT)
    assert done.returncode == 0


def test_training_and_commands_need_no_rich_and_the_trainer_names_it() -> None:
    program = """
import sys
sys.modules["rich"] = None
import numpy as np, treadle as td
from treadle.cli import main
model = td.Model(td.nn.Linear(3, 2), loss="mse")
model.fit(np.ones((8, 3), "f4"), np.ones((8, 2), "f4"), epochs=1)
assert main(["info"]) == 0
raise SystemExit(main(["train", "--epochs", "1"]) + 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("epoch 1/1: loss") and "numpy" in done.stdout
    assert "needs rich, which is not installed" in done.stderr
    assert 'pip install "treadle[cli]"' in done.stderr


def test_a_page_of_an_index_has_no_link_into_the_sources() -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--long-description"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "docs/guide.md" in done.stdout
    targets = re.findall(r"\]\(([^)]+)\)", done.stdout)
    assert all(target.startswith("https://") for target in targets)


def test_what_is_needed_to_test_is_in_the_sources() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text()
    for folder in ("tests", "docs", "examples", "benchmarks"):
        assert f"graft {folder}" in manifest and (ROOT / folder).is_dir()
