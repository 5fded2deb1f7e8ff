"""The settings of a training run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from treadle.base.errors import ModelFileError, OptionError


@dataclass(frozen=True)
class Settings:
    """The options of `treadle train`; `lr` None is the optimizer's usual rate.

    The `batch` images of a step are `shards` parts, which ranks share out.

    >>> Settings().changed(epochs=3, network=None).epochs
    3
    """

    data: str = "digits"
    data_dir: str | None = None
    network: str = "lenet"
    optimizer: str = "adam"
    lr: float | None = None
    epochs: int = 15
    batch: int = 32
    shards: int = 1
    seed: int = 0
    engine: str = "auto"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "shards"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name} is at least 1")
        if self.batch % self.shards:
            raise OptionError(
                f"--batch {self.batch} is not a multiple of {self.shards} shards"
            )
        if not 0 <= self.seed < 2**63:
            raise OptionError("--seed is a whole number from 0, below 2**63")
        if self.lr is not None and not (math.isfinite(self.lr) and self.lr > 0):
            raise OptionError(f"--lr is a positive number, not {self.lr}")

    def changed(self, **changes: Any) -> Settings:
        """These settings with those changes that are not None."""
        chosen = {name: value for name, value in changes.items() if value is not None}
        return Settings(**{**asdict(self), **chosen})

    def resumed(self, **changes: Any) -> Settings:
        """The settings a run goes on with: what decides its bits may not change."""
        for name in ("data", "network", "optimizer", "lr", "batch", "shards", "seed"):
            value, had = changes.get(name), getattr(self, name)
            if value is not None and value != had:
                raise OptionError(
                    f"the run has --{name} {had}; it cannot become {value}"
                )
        return self.changed(**changes)

    def facts(self) -> dict[str, Any]:
        """The settings as JSON can say them."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Any, place: str) -> Settings:
        """The settings that `facts` gave; ModelFileError names `place` otherwise."""
        kinds: dict[str, tuple[type, ...]] = {
            "int": (int,),
            "str": (str,),
            "str | None": (str, type(None)),
            "float | None": (float, type(None)),
        }
        expected = {f.name: kinds[str(f.type)] for f in fields(cls)}
        if not isinstance(facts, Mapping) or set(facts) != set(expected):
            raise ModelFileError(f"{place}: the run's settings are not complete")
        for name, types in expected.items():
            if not isinstance(facts[name], types) or isinstance(facts[name], bool):
                raise ModelFileError(f"{place}: {name} cannot be {facts[name]!r}")
        return cls(**facts)
