"""owl: the lenet step, with what it is made of counted as Owl counts its graphs."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.workloads.lenet import WORKLOAD as LENET

__all__ = ["WORKLOAD"]

WORKLOAD = replace(LENET, name="owl", claims=(), memory=False, counts=True)
