"""What tests of engines have in common."""

from __future__ import annotations

import pytest

from tests.engines.gpus import missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("gpu"):
        if reason := missing(*mark.args):
            pytest.skip(reason)
