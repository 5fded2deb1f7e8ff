"""Guards of traces: what a function took from around it, and whether that holds."""

from __future__ import annotations

import functools
import types
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from operator import is_
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.changes import StampCheck, changes
from treadle.base.options import modes
from treadle.graph.calls import Seen, Where
from treadle.graph.operators import Operand
from treadle.graph.thread import native_calls
from treadle.graph.variable import Variable
from treadle.runtime.named import (
    CALLED,
    DYNAMIC,
    attributes_of,
    functions_of,
    is_library,
    names_of,
)

PLAIN = (bool, int, str, bytes, complex, type(None), float)
_FEW = 16  # entries of a dict up to which each of them is a term of its own
_CHECK = """
def make({names}):
    def check():
        try:
            return {terms}
        except (AttributeError, KeyError, ValueError):  # something is gone
            return False
    return check
"""


class Wrapper:
    """A wrapper of a Python function, with that function's surroundings."""

    __slots__ = ()
    f: Callable[..., Any]


class FunctionGuard:
    """A guard: a comparable token of what a traced function took from around it.

    Numbers, strings and flags count by value, everything else by identity; objects
    that were seen are kept alive, so that an identity is never taken again. Each place
    that was looked at is a term of `check`: while the same objects are found in all of
    them, the token would be the same. What moves the stamp when it is changed is looked
    at again only after that.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        now = modes.get()
        self.dtype, self.no_grad = now.dtype, bool(now.no_grad)
        self.alive: list[Any] = []
        self.seen: set[int] = set()
        self._around: set[int] = set()  # functions whose surroundings were looked at
        self.names = set(names)  # what the function's code mentions
        self._all = not DYNAMIC.isdisjoint(self.names)  # it may read any attribute
        self._values: list[Any] = []  # what the terms speak of
        self._named: dict[int, str] = {}
        self._stamped: list[str] = []  # terms that hold while the stamp stays
        self._terms: list[str] = []
        self._seen = [Seen(Where.MODE, modes, "dtype", self.dtype)]
        if self.no_grad:
            self._terms.append(f"{self._name(modes)}.get().no_grad")
        else:
            self._seen.append(Seen(Where.MODE, modes, "no_grad", 0))

    def check(self) -> Callable[[], bool]:
        """A function that tells whether all that was looked at is what it was."""
        seen = self._seen
        if self._stamped:
            seen = [*seen, Seen(Where.STAMP, StampCheck(self._checked(self._stamped)))]
        if native_calls is None:
            return self._checked([*map(self._text, seen), *self._terms])
        more = self._checked(self._terms) if self._terms else None
        places = tuple((x.kind, x.owner, x.name, x.value) for x in seen)
        holds: Callable[[], bool] = native_calls.guard(places, more)
        return holds

    # -- terms ---------------------------------------------------------------------

    def _checked(self, terms: list[str]) -> Callable[[], bool]:
        """A function that tells whether terms hold; not where something is gone."""
        names = ", ".join(f"v{k}" for k in range(len(self._values)))
        text = _CHECK.format(names=names, terms=" and ".join(terms))
        return compiled(text, "make")(*self._values)

    def _text(self, seen: Seen) -> str:
        """The term that tells whether something is where it was seen."""
        owner = self._name(seen.owner)
        if seen.kind == Where.STAMP:
            return f"({self._name(changes)}.now == {owner}.seen or {owner}())"
        if seen.kind == Where.ABSENT:
            return f"{seen.name!r} not in {owner}"
        if seen.kind == Where.CONTENT:
            content = self._name(content_of(seen.value))
            return f"{self._name(content_of)}({owner}) == {content}"
        if seen.kind == Where.KEYS:
            return f"(*{owner},) == {self._name(seen.value)}"
        if seen.kind == Where.PARTS:
            same = f"{self._name(_same)}({owner}, {self._name(seen.value)})"
            return f"len({owner}) == {len(seen.value)} and {same}"
        place = f"[{seen.name!r}]" if seen.kind == Where.ITEM else f".{seen.name}"
        if seen.kind == Where.MODE:
            place = f".get(){place}"
        return f"{owner}{place} is {self._name(seen.value)}"

    def _name(self, value: Any) -> str:
        """The name of an object in the terms."""
        name = self._named.get(id(value))
        if name is None:
            name = self._named[id(value)] = f"v{len(self._values)}"
            self._values.append(value)
        return name

    def _item(self, holder: Any, key: str) -> None:
        """Note that a dict has a value under a name."""
        self._seen.append(Seen(Where.ITEM, holder, key, holder[key]))

    def _attribute(self, owner: Any, name: str, value: Any) -> None:
        """Note that an object has a value as an attribute."""
        self._seen.append(Seen(Where.ATTRIBUTE, owner, name, value))

    def _parts(self, view: str, parts: Iterable[Any]) -> None:
        """Note what iterating over the object that `view` stands for comes to."""
        self._terms.append(f"{self._name(_same)}({view}, {self._name(list(parts))})")

    def _items(self, x: Collection[Any]) -> None:
        """Note the items of a list or a set."""
        if type(x) is list:
            self._seen.append(Seen(Where.PARTS, x, value=tuple(x)))
        else:
            self._terms.append(f"len({self._name(x)}) == {len(x)}")
            self._parts(self._name(x), x)

    def _keys(self, x: Mapping[Any, Any]) -> None:
        """Note the keys of a dict, in order."""
        plain = all(type(k) is str for k in x)
        if plain and type(x) is dict:
            self._seen.append(Seen(Where.KEYS, x, value=tuple(x)))
        elif plain:
            self._terms.append(f"[*{self._name(x)}] == {self._name(list(x))}")
        else:
            self._terms.append(f"len({self._name(x)}) == {len(x)}")
            self._parts(self._name(x), x)

    # -- tokens --------------------------------------------------------------------

    def token(self, x: Any, depth: int = 0) -> Any:
        if isinstance(x, PLAIN):
            return type(x).__name__, x
        if isinstance(x, np.ndarray):
            return self._array(x, depth)
        if isinstance(x, Operand):
            self.alive.append(x)
            if not isinstance(x, Variable):
                return id(x), None
            trains, frozen, name = x.trainable, x.frozen, self._name(x)
            self._stamped.append(f"{name}._trainable is {self._name(trains)}")
            self._stamped.append(f"{name}.frozen is {self._name(frozen)}")
            return id(x), trains, None if frozen is None else id(frozen)
        if depth > _DEEPEST:
            self.alive.append(x)
            return id(x)
        if isinstance(x, tuple):
            return type(x).__name__, tuple(self.token(v, depth + 1) for v in x)
        if isinstance(x, list):
            self._items(x)
            return type(x).__name__, tuple(self.token(v, depth + 1) for v in x)
        if isinstance(x, (dict, types.MappingProxyType)):
            self._keys(x)
            few = isinstance(x, dict) and len(x) <= _FEW
            if not few or not all(type(k) is str for k in x):
                self._parts(f"{self._name(x)}.values()", x.values())
            else:
                for key in x:
                    self._item(x, key)
            return self._pairs(x, depth)
        self.alive.append(x)
        if id(x) in self.seen:
            return id(x)
        self.seen.add(id(x))
        if isinstance(x, type):
            return id(x), self._class(x, depth)
        if isinstance(x, types.ModuleType):
            return id(x), self._named_in(x, depth)
        if isinstance(x, Wrapper):
            self._attribute(x, "f", x.f)
            return id(x), self.callee(x.f)
        if isinstance(x, types.FunctionType):
            return id(x), self.surroundings(x, depth + 1)
        if isinstance(x, types.MethodType):  # what it names first
            return self.token(x.__func__, depth), self.token(x.__self__, depth)
        if isinstance(x, functools.partial):
            return id(x), self.callee(x)
        if isinstance(x, (set, frozenset, deque)):
            self._items(x)
            return id(x), tuple(self.token(v, depth + 1) for v in x)
        if isinstance(x, ContextVar):
            value = x.get(None)
            self._terms.append(f"{self._name(x)}.get(None) is {self._name(value)}")
            return id(x), self.token(value, depth + 1)
        if isinstance(x, (bytearray, array, memoryview)):
            self._terms.append(f"bytes({self._name(x)}) == {self._name(bytes(x))}")
            return id(x), bytes(x)
        return id(x), self._attributes(x, depth)

    def _array(self, x: np.ndarray[Any, Any], depth: int) -> Any:
        """An array by what it holds, which is compared at each call if it may change:
        as a tensor, in td.constant or a buffer of a module, it is not looked at.
        """
        self.alive.append(x)
        if id(x) in self.seen or is_fixed(x):
            return id(x), None
        self.seen.add(id(x))
        content = content_of(x)
        if type(x) is np.ndarray and x.nbytes <= EXACT and x.dtype.kind not in "OmMV":
            self._seen.append(Seen(Where.CONTENT, x, value=np.array(x, order="C")))
        else:
            self._terms.append(
                f"{self._name(content_of)}({self._name(x)}) == {self._name(content)}"
            )
        inside = x.flat if x.dtype.hasobject else ()
        return id(x), content, tuple([self.token(v, depth + 1) for v in inside])

    def _pairs(self, x: Mapping[Any, Any], depth: int) -> Any:
        pairs = ((k, self.token(v, depth + 1)) for k, v in x.items())
        return "dict", tuple(pairs)

    def _named_in(self, x: types.ModuleType, depth: int) -> Any:
        """The names that the function uses of a user's Python module."""
        if is_library(x):
            return None
        named = {k: v for k, v in vars(x).items() if k in self.names}
        for key in named:
            self._item(vars(x), key)
        return self._pairs(named, depth + 1)

    def _attributes(self, x: Any, depth: int) -> Any:
        """All attributes of a module, of other objects those the function names."""
        inner = getattr(x, "__dict__", None)
        of_class = self._class(type(x), depth), self._slots(x, depth)
        if inner is None:
            return of_class
        unseen = getattr(type(x), "_unseen", None)
        if unseen is not None:
            return of_class, self._module(x, inner, unseen, depth)
        self._attribute(x, "__dict__", inner)
        if type(x).__module__.startswith("treadle."):
            return None
        self._keys(inner)
        named = {k: v for k, v in inner.items() if self._all or k in self.names}
        for key in named:
            self._item(inner, key)
        return of_class, self._pairs(named, depth + 1)

    def _slots(self, x: Any, depth: int) -> Any:
        """The names that the function uses of an object's slots."""
        tokens = []
        for owner in type(x).__mro__:
            for name, place in vars(owner).items():
                slot = isinstance(place, types.MemberDescriptorType)
                if slot and (self._all or name in self.names) and hasattr(x, name):
                    self._attribute(x, name, getattr(x, name))
                    tokens.append((name, self.token(getattr(x, name), depth + 1)))
        return tuple(tokens)

    def _class(self, cls: type, depth: int) -> Any:
        """The names that the function uses of a user's class: those of its methods and
        properties in turn, and other attributes."""
        tokens: dict[str, Any] = {}
        attributes = attributes_of(cls)
        while True:
            names = attributes.keys() if self._all else self.names | CALLED
            fresh = sorted((attributes.keys() & names) - tokens.keys())
            if not fresh:
                return tuple(tokens.items())
            for name in fresh:
                owner, value = attributes[name]
                around = [self.surroundings(f, depth + 1) for f in functions_of(value)]
                tokens[name] = id(value), *around
                plain = not callable(value) and not hasattr(value, "__get__")
                if plain or isinstance(value, (types.FunctionType, property)):
                    self._attribute(owner, name, value)
                get = getattr(type(value), "__get__", None)
                if plain or isinstance(get, types.FunctionType):
                    tokens[name] = id(value), *around, self.token(value, depth + 1)

    def _module(self, x: Any, inner: Any, unseen: Any, depth: int) -> Any:
        """The attributes of a module, which moves the stamp when one is set."""
        attributes = {k: v for k, v in inner.items() if k not in unseen}
        values, keys = self._name(inner), self._name(list(attributes))
        self._stamped.append(f"{self._name(x)}.__dict__ is {values}")
        kept = f"[k for k in {values} if k not in {self._name(unseen)}]"
        self._stamped.append(f"{kept} == {keys}")
        for key, value in attributes.items():
            self._stamped.append(f"{values}[{key!r}] is {self._name(value)}")
        return self._pairs(attributes, depth + 1)

    def callee(self, f: Callable[..., Any]) -> Any:
        """Tokens of what is called: a function, a method and its object, a module."""
        if isinstance(f, types.FunctionType):
            return self.surroundings(f)
        if isinstance(f, functools.partial):
            return self.callee(f.func), self.token(f.args), self.token(f.keywords)
        within = getattr(type(f), "forward", None) or type(f).__call__
        return self.surroundings(within), self.token(f)

    def surroundings(self, f: Callable[..., Any], depth: int = 0) -> Any:
        """Tokens of the closure cells and globals a Python function names."""
        code = getattr(f, "__code__", None)
        if code is None or "treadle." in f"{f.__module__}.":
            return None
        if id(f) in self._around:
            return code
        self._around.add(id(f))
        self._attribute(f, "__code__", code)
        names, loaded = names_of(code)
        known = f.__globals__
        # What is looked up in a library's module is no attribute of another thing.
        self.names.update(
            n for n, base in names if n in DYNAMIC or not is_library(known.get(base))
        )
        tokens: list[Any] = [code]
        for name in ("__defaults__", "__kwdefaults__"):
            values = getattr(f, name, None)
            if values is not None:
                self._attribute(f, name, values)
                tokens.append(self.token(values, depth))
        for cell in f.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:
                inside = "empty"
            self._attribute(cell, "cell_contents", inside)
            tokens.append(self.token(inside, depth))
        for name in loaded:
            if name in known:
                self._item(known, name)
                tokens.append((name, self.token(known[name], depth)))
            else:
                self._seen.append(Seen(Where.ABSENT, known, name))
        return tuple(tokens)


_DEEPEST = 32  # nested objects up to which what is inside is looked at
EXACT = 1 << 18  # bytes of an array up to which they are compared themselves


def is_fixed(x: np.ndarray[Any, Any]) -> bool:
    """Return True if nobody can write an array, nor what it is a part of."""
    while type(x) is np.ndarray and not x.flags.writeable:
        if x.base is None:
            return True
        x = x.base
    return False


def content_of(x: np.ndarray[Any, Any]) -> Any:
    """The content of an array: its shape, dtype and bytes, or a digest for many."""
    if x.dtype.hasobject:
        return x.shape, x.dtype.str, tuple([id(item) for item in x.flat])
    if x.nbytes <= EXACT:
        return x.shape, x.dtype.str, x.tobytes()
    raw = np.ascontiguousarray(x).view(np.uint8)
    return x.shape, x.dtype.str, zlib.crc32(raw.data), zlib.adler32(raw.data)


def _same(parts: Iterable[Any], objects: Iterable[Any]) -> bool:
    """Return True if the parts are these very objects, as far as there are any."""
    return all(map(is_, parts, objects))


@cached(1024)
def compiled(text: str, name: str) -> Callable[..., Any]:
    """The function of this name that a text defines: one for many guards."""
    space: dict[str, Any] = {}
    exec(text, space)
    return space[name]
