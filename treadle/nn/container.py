"""Modules made of modules: Sequential, ModuleList, ModuleDict, ParameterList."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treadle.base.errors import ArgumentError, PartError
from treadle.graph.variable import Variable
from treadle.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential"]


class _Numbered(Module):
    """Parts kept as attributes "0", "1", ... so that paths have no list in between."""

    def _parts(self) -> list[Any]:
        return [v for k, v in vars(self).items() if k.isdecimal()]

    def _set(self, parts: Iterable[Any]) -> None:
        for name in [name for name in vars(self) if name.isdecimal()]:
            delattr(self, name)
        for k, part in enumerate(parts):
            if isinstance(part, Module):
                part._path = ""
            setattr(self, str(k), part)

    def __len__(self) -> int:
        return len(self._parts())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts())

    def __getitem__(self, key: int | slice) -> Any:
        parts = self._parts()
        if isinstance(key, slice):
            return self._like(parts[key])
        return parts[self._place(key)]

    def _place(self, key: int) -> int:
        """The number of a part, which may be counted from the end."""
        try:
            return range(len(self))[key]
        except (IndexError, TypeError):
            raise PartError(
                f"{type(self).__name__} of {len(self)} has no part {key!r}",
                hint="a part has a number from 0 on; -1 is the last",
            ) from None

    def _like(self, parts: list[Any]) -> Any:
        container = type(self).__new__(type(self))
        container.extend(parts)
        return container

    def __setitem__(self, key: int, part: Any) -> None:
        setattr(self, str(self._place(key)), part)

    def __delitem__(self, key: int | slice) -> None:
        parts = self._parts()
        del parts[key if isinstance(key, slice) else self._place(key)]
        self._set(parts)

    def append(self, part: Any) -> Any:
        """Add a part at the end."""
        setattr(self, str(len(self)), part)
        return self

    def extend(self, parts: Iterable[Any]) -> Any:
        """Add parts at the end."""
        for part in parts:
            self.append(part)
        return self

    def insert(self, position: int, part: Any) -> None:
        """Put a part before the one at `position`."""
        parts = self._parts()
        try:
            parts.insert(position, part)
        except (TypeError, OverflowError):
            raise ArgumentError(
                f"a part is put before a whole number of others, not {position!r}"
            ) from None
        self._set(parts)


class Sequential(_Numbered):
    """Modules one after the other, given singly, as a list, or by name as a dict.

    >>> net = td.nn.Sequential(td.nn.Linear(3, 4), td.nn.Flatten(), td.nn.Linear(4, 2))
    >>> net(td.ones((5, 3))).shape, [name for name, _ in net.named_parameters()][:2]
    ((5, 2), ['0.weight', '0.bias'])
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                if name in vars(self):
                    raise ArgumentError(f"a part cannot be named {name!r}")
                setattr(self, name, module)
            return
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            modules = tuple(modules[0])
        self.extend(modules)

    def _parts(self) -> list[Any]:
        return [*filter(Module.__instancecheck__, vars(self).values())]

    def __setitem__(self, key: int, part: Any) -> None:
        names = [name for name, _ in self.named_children()]
        setattr(self, names[self._place(key)], part)

    def append(self, part: Any) -> Any:
        if not callable(part):
            raise ArgumentError(f"{part!r} is no module")
        return super().append(part if isinstance(part, Module) else Lambda(part))

    def forward(self, x: Any, *rest: Any) -> Any:
        for module in self._parts():
            x = module(x, *rest) if rest else module(x)
            rest = ()
        return x


class Lambda(Module):
    """A plain function as a module.

    >>> Lambda(abs)(-2)
    2
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", "function")


class ModuleList(_Numbered):
    """A list whose modules belong to the module that holds it.

    >>> layers = td.nn.ModuleList([td.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)


class ParameterList(_Numbered):
    """A list of parameters that belong to the module that holds it.

    >>> len(td.nn.ParameterList([td.param(init=1.0), td.param(init=2.0)]))
    2
    """

    def __init__(self, parameters: Iterable[Variable] = ()) -> None:
        self.extend(parameters)


class ModuleDict(Module):
    """Modules by name, in the order of insertion.

    >>> heads = td.nn.ModuleDict({"tag": td.nn.Linear(2, 3)})
    >>> "tag" in heads, [name for name, _ in heads.named_parameters()]
    (True, ['tag.weight', 'tag.bias'])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Take over modules by name."""
        for name, module in modules.items():
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        children = dict(self.named_children())
        if name not in children:
            raise KeyError(name)
        return children[name]

    def __setitem__(self, name: str, module: Module) -> None:
        if hasattr(type(self), name) or name == "training":
            raise ArgumentError(f"a module cannot be named {name!r}")
        setattr(self, name, module)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in dict(self.named_children())

    def __len__(self) -> int:
        return len(dict(self.named_children()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, _ in self.named_children()]

    def values(self) -> list[Module]:
        """The modules."""
        return list(self.children())

    def items(self) -> list[tuple[str, Module]]:
        """Names and modules."""
        return list(self.named_children())
