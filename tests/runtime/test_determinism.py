"""Same seed, same bits: in one process, in another, with values read on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import treadle as td

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import hashlib
import numpy as np
import treadle as td

def weights(reads, optimizer, steps=40):
    with td.options(seed=5):
        model = td.nn.Sequential(
            td.nn.Conv2d(1, 4, 3, padding=1), td.nn.ReLU(), td.nn.MaxPool2d(2),
            td.nn.Flatten(), td.nn.Dropout(0.2), td.nn.Linear(64, 5),
        )
        opt = optimizer(lr=0.05)
        rng = np.random.default_rng(1)
        for step in range(steps):
            x = rng.standard_normal((6, 1, 8, 8)).astype(np.float32)
            loss = td.nn.functional.cross_entropy(model(x), rng.integers(0, 5, 6))
            if reads:
                float(loss)
                repr(model[0].weight)
            opt.step(loss)
        digest = hashlib.sha256()
        for name, value in sorted(model.state_dict().items()):
            digest.update(value.tobytes())
        return digest.hexdigest()
"""


def run_here(reads: bool, optimizer: type) -> str:
    names: dict[str, object] = {}
    exec(PROGRAM, names)
    return names["weights"](reads, optimizer)  # type: ignore[operator, no-any-return]


def test_reading_values_changes_no_bit() -> None:
    for optimizer in (td.optim.SGD, td.optim.Adam, td.optim.Adagrad):
        assert run_here(False, optimizer) == run_here(True, optimizer)


def test_another_process_makes_the_same_bits() -> None:
    program = PROGRAM + "print(weights(False, td.optim.Adam))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == run_here(False, td.optim.Adam)
