"""Caches: bounded tables that memoize, listed and emptied in one place."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_R = TypeVar("_R")
_every: dict[int, tuple[str, weakref.ref[Any]]] = {}  # by identity, while they live


class Cache(OrderedDict[_K, _V]):
    """A table of at most `limit` entries; the oldest goes first.

    >>> squares = Cache("squares of the example", 2)
    >>> for k in range(3):
    ...     squares[k] = k * k
    >>> dict(squares)
    {1: 1, 2: 4}
    """

    def __init__(self, name: str, limit: int) -> None:
        super().__init__()
        self.limit = limit
        _register(name, self)

    def __setitem__(self, key: _K, value: _V) -> None:
        super().__setitem__(key, value)
        if len(self) > self.limit:
            with suppress(KeyError):  # another thread has emptied it
                self.popitem(last=False)

    def renew(self, key: _K) -> None:
        """Make an entry the newest, if it is there."""
        try:
            self.move_to_end(key)
        except KeyError:  # another thread has emptied the table
            return

    def setdefault(self, key: _K, default: _V) -> _V:
        while True:
            with suppress(KeyError):  # another thread has emptied it meanwhile
                return super().setdefault(key, default)


class Hashed(Generic[_V]):
    """A key of many parts, whose hash is asked for again and again.

    >>> Hashed((1, 2)) == Hashed((1, 2)), Hashed((1, 2)).value
    (True, (1, 2))
    """

    __slots__ = ("_hash", "value")

    def __init__(self, value: _V) -> None:
        self.value, self._hash = value, hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and bool(self.value == other.value)


def cached(
    limit: int, typed: bool = False
) -> Callable[[Callable[..., _R]], functools._lru_cache_wrapper[_R]]:
    """`functools.lru_cache` of at most `limit` results, listed and emptied with all."""

    def wrapped(f: Callable[..., _R]) -> functools._lru_cache_wrapper[_R]:
        cache = functools.lru_cache(limit, typed)(f)
        _register(f"{f.__module__}.{f.__qualname__}", cache)
        return cache

    return wrapped


class lazy(Generic[_R]):
    """A property that is computed once; `functools.cached_property` of Python 3.11
    holds a lock meanwhile, which a forked child can find held by nobody."""

    def __init__(self, function: Callable[[Any], _R]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> _R:
        if instance is None:
            return self  # type: ignore[return-value]
        name = self._function.__name__
        return instance.__dict__.setdefault(name, self._function(instance))


def _register(name: str, cache: Any) -> None:
    key = id(cache)
    # Without Python code, which an interrupt could end, where a cache dies.
    _every[key] = name, weakref.ref(cache, functools.partial(_every.pop, key))


def caches() -> Iterator[tuple[str, int, int, Any]]:
    """The name of each cache that lives, its entries, its limit, and itself."""
    for name, reference in sorted(_every.values(), key=lambda pair: pair[0]):
        cache = reference()
        if isinstance(cache, Cache):
            yield name, len(cache), cache.limit, cache
        elif cache is not None:
            info = cache.cache_info()
            yield name, info.currsize, info.maxsize, cache


def tables() -> tuple[tuple[str, int, int], ...]:
    """The name of each cache, its entries and its limit."""
    return tuple((name, size, limit) for name, size, limit, _ in caches())


def clear() -> None:
    """Empty every cache."""
    for *_, cache in caches():
        if isinstance(cache, Cache):
            cache.clear()
        else:
            cache.cache_clear()
