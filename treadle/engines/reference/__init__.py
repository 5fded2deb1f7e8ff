"""The reference engine: NumPy meanings, node by node."""

from treadle.engines.reference.interpreter import Reference

__all__ = ["Reference"]
