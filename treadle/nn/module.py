"""Module: a network as an object whose attributes are its parameters and parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from treadle.base.changes import changed, unheard
from treadle.base.dtypes import as_dtype, kind, whole
from treadle.base.errors import ArgumentError
from treadle.base.torch import name_elsewhere
from treadle.base.types import Type
from treadle.graph.noted import Noted
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.nn.state import (
    Keys,
    Rename,
    assigned,
    choose,
    compare,
    dotted,
    in_dtype,
    members,
    one_value,
    parted,
)
from treadle.nn.trained import released, trains, update_trainable
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import store

__all__ = ["Keys", "Module"]

State = dict[str, np.ndarray[Any, Any]]
_AUTOMATIC = re.compile(r"variable_\d+")
_PRIVATE = frozenset(
    ("_path", "_named", "_passing", "_inputs", "_notes", "_trains", "_above")
)


class Module(Noted):
    """The base of all layers: assign parameters and parts, write `forward`.

    Attributes that are Variables or Modules, or lists, tuples or dicts of them, belong
    to the module in the order they were assigned. Parameters are the trainable kind,
    buffers the other Variables. A Variable without a name of its own is named by its
    path. An array assigned to a parameter or a buffer becomes its value.

    >>> class Scale(td.nn.Module):
    ...     def __init__(self):
    ...         self.factor = td.param(init=2.0)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> layer = Scale()
    >>> float(layer(3.0)), layer.factor.name
    (6.0, 'factor')
    """

    training: bool
    _unseen = _PRIVATE  # attributes that no function that is traced depends on
    _named: dict[str, str]
    _passing: set[str]
    _trains: bool  # what `trainable` was set to
    _above: WeakSet[Module]  # the modules that hold this one

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        module = super().__new__(cls)
        module.__dict__.update(training=True, _path="", _named={}, _passing=set())
        module.__dict__.update(_notes=(None,) * 3, _trains=True, _above=WeakSet())
        return module

    def __getstate__(self) -> dict[str, Any]:
        around = ("_above", "_notes")
        return {k: v for k, v in self.__dict__.items() if k not in around}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy, or a pickle, of a part has nothing around it.
        self.__dict__.update(state, _above=WeakSet(), _notes=(None,) * 3)
        for part in self.children():
            part._above.add(self)
        update_trainable(self)

    def __init__(self) -> None:
        pass

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call of the module."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __setattr__(self, name: str, value: Any) -> None:
        known = self.__dict__.get(name)
        other = known is not value and not any(members(name, value, Module))
        if isinstance(known, Variable) and not isinstance(known, Placeholder) and other:
            assigned(f"{type(self).__name__}.{name}", known, value)
            return
        # `self.v += e` assigns the Variable and hands back the same object.
        if known is not value or known is None:
            self._adopt(name, value)
        object.__setattr__(self, name, value)
        if known is not value:
            released(self, [item for _, item in members(name, known, Module)])
        changed()

    def __delattr__(self, name: str) -> None:
        known = self.__dict__.get(name)
        object.__delattr__(self, name)
        released(self, [item for _, item in members(name, known, Module)])
        changed()

    def _adopt(self, name: str, value: Any) -> None:
        """Name what is below an attribute by its path from this module."""
        for path, item in members(name, value, Module):
            full = f"{self._path}.{path}" if self._path else path
            if isinstance(item, Module):
                item._above.add(self)
                item._move(full)
            elif self._named.get(path) == item.name or _AUTOMATIC.fullmatch(item.name):
                self._named[path] = item.name = full

    def _move(self, path: str) -> None:
        # The first owner names a module; what holds the owner makes the path longer.
        if self._path and not path.endswith(f".{self._path}"):
            return
        self._path = path
        for name, value in self._attributes():
            self._adopt(name, value)

    def _attributes(self) -> list[tuple[str, Any]]:
        """The attributes in which there may be Variables and Modules."""
        every = vars(self).items()
        return [
            (k, v) for k, v in every if k not in _PRIVATE and isinstance(v, _HOLDERS)
        ]

    def _items(self) -> Iterator[tuple[str, Any]]:
        """The Variables and Modules directly below, by path."""
        for name, value in self._attributes():
            yield from members(name, value, Module)

    # -- looking through -----------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, by name."""
        for path, item in self._items():
            if isinstance(item, Module):
                yield path, item

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, by path."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            below = [(dotted(path, k), child) for k, child in module.named_children()]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def _named_variables(
        self, once: bool = True, passing: bool = True
    ) -> Iterator[tuple[str, Variable]]:
        seen: set[int] = set()

        def visit(prefix: str, module: Module) -> Iterator[tuple[str, Variable]]:
            if id(module) in above:
                return
            above.add(id(module))
            left = () if passing else module._passing
            for name, value in module._attributes():
                if name in left:
                    continue
                for path, item in members(dotted(prefix, name), value, Module):
                    if isinstance(item, Module):
                        yield from visit(path, item)
                    elif isinstance(item, Placeholder) or (once and id(item) in seen):
                        continue
                    else:
                        seen.add(id(item))
                        yield path, item
            above.discard(id(module))

        above: set[int] = set()
        return visit("", self)

    def named_parameters(self) -> Iterator[tuple[str, Variable]]:
        """The parameters by path, each once, in the order they were assigned.

        >>> [(name, p.shape) for name, p in td.nn.Linear(3, 2).named_parameters()]
        [('weight', (2, 3)), ('bias', (2,))]
        """
        return ((k, v) for k, v in self._named_variables() if _is_parameter(v))

    def parameters(self) -> Iterator[Variable]:
        """The parameters, each once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Variable]]:
        """The Variables that training does not change by a gradient, by path."""
        return ((k, v) for k, v in self._named_variables() if not _is_parameter(v))

    def buffers(self) -> Iterator[Variable]:
        """The Variables that training does not change by a gradient."""
        return (v for _, v in self.named_buffers())

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        """Keep a value as a Variable; not `persistent`: outside the state_dict."""
        variable = value
        if value is not None and not isinstance(value, Variable):
            variable = Variable(value)
        setattr(self, name, variable)
        if not persistent:
            self._passing.add(name)

    def register_parameter(self, name: str, value: Variable | None) -> None:
        """Assign a parameter under a name."""
        setattr(self, name, value)

    def add_module(self, name: str, module: Module | None) -> None:
        """Assign a part under a name."""
        setattr(self, name, module)

    # -- state ---------------------------------------------------------------------

    def _state_variables(self) -> dict[str, Variable]:
        return dict(self._named_variables(once=False, passing=False))

    def state_dict(self) -> State:
        """The values of all parameters and buffers at one moment: path -> array.

        >>> list(td.nn.Linear(3, 2).state_dict())
        ['weight', 'bias']
        """
        named = self._state_variables()
        return dict(zip(named, evaluate(list(named.values())), strict=True))

    def check_state(
        self,
        types: Mapping[str, Type | None],
        strict: bool = True,
        wrong: Iterable[tuple[str, list[str]]] = (),
    ) -> Keys:
        """The names without a partner; raises ModelFileError where a state of these
        types, or what else is `wrong` with it, does not let it be loaded."""
        types_here = {k: v.type for k, v in self._state_variables().items()}
        return compare(types_here, types, strict, type(self).__name__, wrong)

    def load_state_dict(
        self,
        state: Mapping[str, Any],
        strict: bool = True,
        *,
        rename: Rename | None = None,
        prefix: str = "",
    ) -> Keys:
        """Take values over by path, all of them or none.

        Another shape is an error; so are missing and unexpected names when `strict`.
        Only names that begin with `prefix` are taken, without it, and renamed: by a
        function, or a mapping of names, where keys that end in "." rename beginnings.

        >>> a, b = td.nn.Linear(3, 2), td.nn.Linear(3, 2)
        >>> b.load_state_dict(a.state_dict())
        Keys(missing_keys=[], unexpected_keys=[])
        """
        taken = choose(state, rename, prefix)
        variables = self._state_variables()
        values = parted(state, taken.names, variables)
        arrays = {k: np.asarray(whole(v)) for k, v in values.items() if k in variables}
        types = {
            name: Type(arrays[name].shape, as_dtype(arrays[name].dtype))
            if name in variables
            else None
            for name in values
        }
        known, who = {k: v.type for k, v in variables.items()}, type(self).__name__
        keys = compare(known, types, strict, who, taken.wrong)
        store(one_value([(k, variables[k], array) for k, array in arrays.items()]))
        return keys

    # -- modes ---------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Behave as in training (dropout, batch statistics), or not."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """Behave as in use."""
        return self.train(False)

    @property
    def trainable(self) -> bool:
        """Whether any parameter below is trained: those whose own setting is True, and
        that of all modules around them.

        >>> net = td.nn.Linear(3, 2)
        >>> net.bias.trainable = net.trainable = False
        >>> net.trainable = True
        >>> net.weight.trainable, net.bias.trainable
        (True, False)
        """
        return any(p.trainable for p in self.parameters())

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.__dict__["_trains"] = bool(value)
        update_trainable(self)
        changed()
        if value and not trains(self):
            unheard(self._path or type(self).__name__)

    def requires_grad_(self, value: bool = True) -> Self:
        """Set `trainable` of each parameter below by itself, as torch does."""
        for p in self.parameters():
            p.trainable = value
        return self

    def astype(self, dtype: Any) -> Self:
        """Hold the parameters and buffers that are floats in another float type.

        They become other Variables of the same names: make optimizers afterwards.

        >>> td.nn.Linear(3, 2).astype("bfloat16").weight.dtype.name
        'bfloat16'
        """
        wanted = as_dtype(dtype)
        if kind(wanted) != "float":
            raise ArgumentError(
                f"a network is held in a float type, not {wanted.name}",
                hint="td.nn.quantize_weights(net) makes int8 of its layers",
            )
        converted: dict[int, Variable] = {}
        for module in self.modules():
            for name, value in module._attributes():
                after = in_dtype(value, wanted, converted)
                if after is not value:
                    module._replace(name, after)
        return self

    _replace = __setattr__  # puts another value in the place of one of `_attributes`

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call `function` on every module below, children first, then on this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients that backward() has added into p.grad: None then."""
        for p in self.parameters():
            p.zero_grad(set_to_none)

    # -- text ----------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The settings shown in the parentheses."""
        return ""

    def __repr__(self) -> str:
        lines = []
        for name, child in self.named_children():
            text = repr(child).replace("\n", "\n  ")
            lines.append(f"  ({name}): {text}")
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        head = f"{type(self).__name__}({extra}" if extra else f"{type(self).__name__}("
        return "\n".join([head, *lines, ")"])


def _is_parameter(v: Variable) -> bool:
    return isinstance(v, Parameter) or v.wanted


_HOLDERS = (Variable, Module, list, tuple, dict)  # what has Variables in it
name_elsewhere(Module, "Module", "net")
