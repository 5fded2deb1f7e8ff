"""Names of torch: the errors of asking for them, with the name here."""

from __future__ import annotations

from typing import Any

from treadle.base.torch.functions import FUNCTIONS
from treadle.base.torch.methods import METHODS
from treadle.base.torch.networks import (
    DATA,
    FFT,
    FUNCTIONAL,
    INIT,
    LAYERS,
    LINALG,
    MODULE,
    OPTIMIZER,
    OPTIMIZERS,
    SCHEDULES,
    UTILS,
)

_PLACES: dict[str, str | dict[str, str]] = {
    "treadle": FUNCTIONS,
    "treadle.data": DATA,
    "treadle.fft": FFT,
    "treadle.linalg": LINALG,
    "treadle.nn": LAYERS,
    "treadle.nn.functional": FUNCTIONAL,
    "treadle.nn.init": INIT,
    "treadle.nn.utils": UTILS,
    "treadle.optim": OPTIMIZERS,
    "treadle.optim.schedules": SCHEDULES,
    "Module": MODULE,
    "Optimizer": OPTIMIZER,
    "Tensor": METHODS,
}


def answers(place: str) -> dict[str, str]:
    """What stands for torch's names in a module, or on a class, by torch's name; after
    a ~ what is nearest to one that has no like.

    >>> answers("treadle")["cat"]
    'td.concat'
    """
    known = _PLACES[place]
    if isinstance(known, dict):
        return known
    return dict(line.split(" ", 1) for line in known.strip().splitlines())


def missing(module: str, name: str) -> AttributeError:
    """The error of asking a module for a name that it does not have.

    >>> missing("treadle", "cat")
    AttributeError('td.cat is td.concat here')
    """
    here = answers(module).get(name)
    if here is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return AttributeError(_answer(f"{module.replace('treadle', 'td', 1)}.{name}", here))


def _answer(name: str, here: str) -> str:
    if here.startswith("~ "):
        return f"there is no {name} here; the nearest is {here[2:]}"
    return f"{name} is {here} here"


class Elsewhere:
    """A name of torch on a class: asked for, an error that tells what stands for it."""

    def __init__(self, said: str, here: str) -> None:
        self.said, self.here = said, here

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(_answer(self.said, self.here))


class Fixed(Elsewhere):
    """The same on a class whose objects take no attributes: nor is it assigned."""

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(_answer(self.said, self.here))


def name_elsewhere(cls: type, place: str, said: str) -> None:
    """Have a class answer for torch's names that it does not have, and list none."""
    others = {k: here for k, here in answers(place).items() if not hasattr(cls, k)}
    kind = Elsewhere if cls.__dictoffset__ else Fixed
    for name, here in others.items():
        setattr(cls, name, kind(f"{said}.{name}", here))

    def listed(self: Any) -> list[str]:
        return sorted({*object.__dir__(self)} - others.keys())

    cls.__dir__ = listed  # type: ignore[assignment, method-assign]
