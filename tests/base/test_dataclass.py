"""Dataclasses made quickly are those of Python."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, InitVar, field, fields, replace
from typing import Any, ClassVar

import pytest

from treadle.base.dataclass import dataclass


class Fields:
    """Fields of every kind."""

    kept: ClassVar[int] = 3
    x: int
    y: float = 2.0
    many: list[int] = field(default_factory=list)
    count: int = field(default=3, init=False, repr=False)
    note: str = field(default="", compare=False)
    _: KW_ONLY
    named: int
    parts: dict[str, int] = field(default_factory=dict)
    scale: InitVar[int] = 1

    def __post_init__(self, scale: int) -> None:
        object.__setattr__(self, "scaled", self.x * scale)


class Numbers:
    """Fields that can be hashed."""

    x: int
    y: float = 2.0
    count: int = field(default=3, init=False, repr=False)
    note: str = field(default="", compare=False)
    seen: int = field(default=0, hash=False)


def both(source: type, **options: Any) -> tuple[Any, Any]:
    """The class as a dataclass of Python's, and as one of the library's."""
    names = {
        k: v for k, v in vars(source).items() if k not in ("__dict__", "__weakref__")
    }
    made = [type(source.__name__, (), dict(names)) for _ in range(2)]
    return dataclasses.dataclass(**options)(made[0]), dataclass(**options)(made[1])


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "options", [{}, {"frozen": True}, {"eq": False}, {"repr": False, "frozen": True}]
)
def test_objects_are_made_and_shown_as_pythons(options: dict[str, bool]) -> None:
    theirs, ours = both(Fields, **options)
    assert str(inspect.signature(ours)).count("=") == str(
        inspect.signature(theirs)
    ).count("=")
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    for args, named in (
        ((1,), {"named": 2}),
        ((1, 3.0, [4]), {"named": 2, "scale": 5, "parts": {"a": 1}}),
        ((1,), {}),
        ((1, 2.0, [], "x", 5), {"named": 2}),
        ((1,), {"named": 2, "count": 4}),
    ):
        a, b = (outcome(lambda c=c: c(*args, **named)) for c in (theirs, ours))  # type: ignore[misc]
        if isinstance(a, tuple):
            assert a == b
            continue
        assert vars(a) == vars(b)
        if options.get("repr", True):
            assert repr(a) == repr(b)
        assert b.count == 3 and b.scaled == 1 * named.get("scale", 1)
    first, second = (ours(1, named=2) for _ in range(2))
    assert first.many == [] and first.many is not second.many


@pytest.mark.parametrize(
    "options", [{}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True}]
)
def test_objects_are_compared_and_hashed_as_pythons(options: dict[str, bool]) -> None:
    theirs, ours = both(Numbers, **options)
    made = [(1,), (1, 3.0), (1, 2.0, "told"), (1, 2.0, "", 5), (2,)]
    for a in made:
        assert (
            outcome(lambda a=a: hash(theirs(*a)))[0:1]
            == outcome(  # type: ignore[misc]
                lambda a=a: hash(ours(*a))
            )[0:1]
            if not options.get("frozen")
            else hash(theirs(*a)) == hash(ours(*a))
        )
        for b in made:
            assert (theirs(*a) == theirs(*b)) == (ours(*a) == ours(*b))
    assert ours(1) != 1 and replace(ours(1), y=5.0) == ours(1, 5.0)
    assert ours.__match_args__ == theirs.__match_args__
    if options.get("frozen"):
        for name in ("x", "count", "other"):
            with pytest.raises(FrozenInstanceError, match=f"assign to field .{name}"):
                setattr(ours(1), name, 2)
        with pytest.raises(FrozenInstanceError, match=r"delete field .x"):
            del ours(1).x


@dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: int = field(default=0, init=False)


@dataclass(frozen=True)
class Base:
    """A base."""

    x: int


@dataclass(frozen=True)
class Derived(Base):
    y: int = 2

    def __repr__(self) -> str:
        return "derived"


def test_frozen_objects_are_copied_and_pickled() -> None:
    for x in (Kept(1), Base(1), Derived(1, 3)):
        assert pickle.loads(pickle.dumps(x)) == x == copy.copy(x)
    assert not hasattr(Kept(1), "__dict__")


def test_a_class_keeps_what_it_defines_and_takes_its_bases_fields() -> None:
    assert repr(Derived(1)) == "derived" and Derived(1) == Derived(1, 2)
    assert Derived(1) != Base(1) and Derived.__doc__ is None
    with pytest.raises(TypeError, match=r"Derived.__init__\(\) missing 1 required"):
        Derived()  # type: ignore[call-arg]
