"""Samples of every op, and calls that it refuses: a module for a module of ops."""

import importlib
import pkgutil

from tests.ops.sampling import Mistake, Sample, mistakes_of, samples_of

__all__ = ["Mistake", "Sample", "mistakes_of", "samples_of"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
