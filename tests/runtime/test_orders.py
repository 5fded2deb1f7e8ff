"""A slice of the campaign of programs in random orders (`orders.py`)."""

from __future__ import annotations

import subprocess
import sys


def test_what_came_before_decides_nothing() -> None:
    """In a process of its own, which has run nothing: it is forked for each order."""
    slice_ = ["--count", "1", "--length", "5", "--seed", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.orders", *slice_],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
