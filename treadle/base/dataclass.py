"""Dataclasses as Python's, made in a tenth of the time.

Python writes the functions of each class as text and compiles it, which takes half a
millisecond a class. Here functions of one form share one compiled code, with the names
of the fields in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from treadle.base.caches import cached

FORMS = 256  # compiled codes
ABSENT: Any = object()  # the default of what a factory makes

if TYPE_CHECKING:  # type checkers know this one
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Make a class a dataclass, as `dataclasses.dataclass` does.

        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0)
        (Point(x=1, y=0), True)
        """
        if cls is None:
            return lambda cls: _made(cls, **options)
        return _made(cls, **options)


def _made(
    cls: Any,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    slots: bool = False,
) -> Any:
    text = cls.__doc__
    cls.__doc__ = text or cls.__name__  # Python would write one, of a signature
    plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)
    cls = plain(cls)
    cls.__doc__ = text
    functions: dict[str, Any] = {"__init__": _constructor(cls, frozen, slots)}
    if repr:
        functions["__repr__"] = _shown
    if eq:
        compared = [f.name for f in fields(cls) if f.compare]
        functions["__eq__"] = _function(cls, "__eq__", _equal(len(compared)), compared)
        if vars(cls).get("__hash__") is None:
            hashed = [
                x.name for x in fields(cls) if (x.compare if x.hash is None else x.hash)
            ]
            code = _hash(len(hashed))
            cls.__hash__ = _function(cls, "__hash__", code, hashed) if frozen else None
    if frozen:
        functions |= _refusing(cls)
        functions |= (
            {"__getstate__": _state, "__setstate__": _set_state} if slots else {}
        )
    for name, function in functions.items():
        if name not in vars(cls):
            setattr(cls, name, function)
    return cls


@recursive_repr()
def _shown(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)


def _refusing(cls: Any) -> dict[str, Any]:
    """What assigns and deletes attributes of a class whose fields stay as they are."""
    names = frozenset(f.name for f in fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _constructor(cls: Any, frozen: bool, slots: bool) -> FunctionType:
    """`__init__` of a class."""
    values: dict[str, Any] = {"_set": object.__setattr__, "_absent": ABSENT}
    forms: list[str] = []
    optional: list[Any] = []
    by_name: dict[str, Any] = {}
    known = [f for f in cls.__dataclass_fields__.values() if not _says(f, "ClassVar")]
    ordered = sorted(known, key=lambda f: bool(f.init and f.kw_only))
    for k, f in enumerate(ordered):
        forms.append(_form(f, slots))
        made = f.default_factory is not MISSING
        values[f"_v{k}"] = f.default_factory if made else f.default
        default = ABSENT if made else f.default
        if f.init and default is not MISSING:
            if f.kw_only:
                by_name[f.name] = default
            else:
                optional.append(default)
    code = _init(tuple(forms), frozen, hasattr(cls, "__post_init__"))
    init = _function(cls, "__init__", code, [f.name for f in ordered], values)
    init.__defaults__, init.__kwdefaults__ = tuple(optional), by_name
    annotated = {f.name: f.type for f in ordered if f.init}
    init.__annotations__ = {**annotated, "return": None}
    return init


def _says(f: Field[Any], annotation: str) -> bool:
    return str(f.type).startswith(annotation)


def _form(f: Field[Any], slots: bool) -> str:
    """How a constructor comes by the value of a field; "*" after what is named."""
    made = f.default_factory is not MISSING
    if f.init:
        given = "passed" if _says(f, "InitVar") else "given"
        return ("optional" if made else given) + "*" * bool(f.kw_only)
    # Without slots a default is an attribute of the class.
    return "made" if made else "default" if slots and f.default is not MISSING else ""


def _function(
    cls: Any,
    name: str,
    code: CodeType,
    names: Sequence[str],
    values: dict[str, Any] | None = None,
) -> FunctionType:
    """A function of a class, of a code whose fields are named p0, p1 and so on."""
    known = {f"p{k}": x for k, x in enumerate(names)}

    def named(words: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(known.get(x, x) for x in words)

    code = code.replace(
        co_varnames=named(code.co_varnames),
        co_names=named(code.co_names),
        co_consts=named(code.co_consts),
    )
    function = FunctionType(code, {"__name__": cls.__module__, **(values or {})}, name)
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    return function


@cached(FORMS)
def _init(forms: tuple[str, ...], frozen: bool, post: bool) -> CodeType:
    parameters, lines, passed = ["self"], [], []
    values = {"given": "p{0}", "optional": "_v{0}() if p{0} is _absent else p{0}"}
    values |= {"made": "_v{0}()", "default": "_v{0}"}
    for k, form in enumerate(forms):
        form, named, _ = form.partition("*")
        if form in ("given", "optional", "passed"):
            parameters += ["*"] * bool(named and "*" not in parameters)
            parameters.append(f"p{k}")
        if form == "passed":
            passed.append(f"p{k}")
        elif form:
            value = values[form].format(k)
            line = f"_set(self, 'p{k}', {value})" if frozen else f"self.p{k} = {value}"
            lines.append(line)
    last = f"self.__post_init__({', '.join(passed)})" if post else "pass"
    return _compiled(parameters, [*lines, last])


@cached(FORMS)
def _equal(count: int) -> CodeType:
    mine, its = (
        "".join(f"{x}.p{k}, " for k in range(count)) for x in ("self", "other")
    )
    return _compiled(
        ["self", "other"],
        [
            "if other.__class__ is not self.__class__: return NotImplemented",
            f"return ({mine}) == ({its})",
        ],
    )


@cached(FORMS)
def _hash(count: int) -> CodeType:
    mine = "".join(f"self.p{k}, " for k in range(count))
    return _compiled(["self"], [f"return hash(({mine}))"])


def _compiled(parameters: Sequence[str], lines: Sequence[str]) -> CodeType:
    names: dict[str, Any] = {}
    exec(f"def f({', '.join(parameters)}):\n " + "\n ".join(lines), names)
    code: CodeType = names["f"].__code__
    return code
