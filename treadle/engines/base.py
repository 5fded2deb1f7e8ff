"""What an engine has to do, and the engines by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from treadle.base.errors import OptionError
from treadle.base.options import engines as engine_names
from treadle.base.options import register_engine
from treadle.graph.tensor import Tensor

Values = dict[int, Any]


class Engine:
    """Runs nodes in creation order; values are keyed by the serial of their node."""

    name = "abstract"
    device = "cpu"

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
    ) -> Values:
        """The values of the nodes in `keep`.

        A node has its value from `feeds`, else from itself if stored, else from its op.
        The stored arrays of the nodes in `spent` nobody else will look at again: an
        engine may write the Variable's next value into them.
        """
        raise NotImplementedError


_engines: dict[str, Callable[[], Engine]] = {}
_made: dict[str, Engine] = {}
# Engines that are loaded when they are first asked for.
_modules = {"native": "treadle.engines.native.engine"}
for _name in _modules:
    register_engine(_name)


def provide_engine(name: str, make: Callable[[], Engine]) -> None:
    """Register an engine under the name `td.options(engine=)` takes."""
    _engines[name] = make
    register_engine(name)


def engine(name: str) -> Engine:
    """The engine of a name; "auto" is the best there is."""
    if name == "auto":
        name = "reference"
    if name not in _made:
        if name in _modules and name not in _engines:
            importlib.import_module(_modules[name])
        if name not in _engines:
            raise OptionError(
                f"there is no engine {name!r}",
                hint=f"engines: {', '.join(engine_names())}",
            )
        _made[name] = _engines[name]()
    return _made[name]
