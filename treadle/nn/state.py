"""Matching of state names: from the names in a state to those of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType, kind, whole
from treadle.base.errors import ArgumentError, ModelFileError, TreadleError
from treadle.base.types import Type
from treadle.graph.variable import Placeholder, Variable

Rename = Mapping[str, str | None] | Callable[[str], str | None]
_RANK = ("bool", "integer", "float", "complex")
_APART = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
_SHOWN = 200  # names of a kind in one message


class Keys(NamedTuple):
    """Keys without a partner in `load_state_dict(strict=False)`."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Chosen(NamedTuple):
    """Own names with the names they have in the state, and what is wrong with those."""

    names: dict[str, str]
    wrong: list[tuple[str, list[str]]]


def choose(
    names: Iterable[str], rename: Rename | None = None, prefix: str = ""
) -> Chosen:
    """The names that begin with `prefix`, without it, and renamed.

    `rename` is a function, or a mapping of names; a key that ends in "." or "/" renames
    what names begin with, the longest such key first. What becomes None is left out.

    >>> choose(["net.a.w", "net.b", "x"], {"a.": "encoder.", "b": None}, "net.").names
    {'encoder.w': 'net.a.w'}
    """
    sources: dict[str, str] = {}
    twice: list[str] = []
    used: set[str] = set()
    for stored in names:
        if not stored.startswith(prefix):
            continue
        name = stored[len(prefix) :]
        if callable(rename):
            target = rename(name)
        else:
            target, key = _renamed(name, rename or {})
            used.add(key)
        if target is None:
            continue
        if target in sources:
            twice.append(f"{target} (from {sources[target]} and {stored})")
        else:
            sources[target] = stored
    idle = [] if rename is None or callable(rename) else list(rename.keys() - used)
    return Chosen(
        sources, [("renamed to one name", twice), ("not there to rename", idle)]
    )


def _renamed(name: str, rename: Mapping[str, str | None]) -> tuple[str | None, str]:
    """The new name, and the key that says so."""
    if name in rename:
        return rename[name], name
    for key in sorted(rename, key=len, reverse=True):
        if key.endswith((".", "/")) and name.startswith(key):
            start = rename[key]
            return (None if start is None else start + name[len(key) :]), key
    return name, name


def parted(
    state: Mapping[str, Any],
    names: Mapping[str, str],
    variables: Mapping[str, Variable],
) -> dict[str, Any]:
    """The values of a state by names here; None for what nobody here has.

    torch's attention has the weights of queries, keys and values under one name,
    `in_proj_weight` and `in_proj_bias`, or those of other widths as `q_proj_weight`:
    they become those of three layers.
    """
    values: dict[str, Any] = {}
    for name, key in names.items():
        if name not in variables and name.endswith(_APART):
            name = name.removesuffix("_weight") + ".weight"
        start, joined, kind_ = name.rpartition("in_proj_")
        parts = [f"{start}{letter}_proj.{kind_}" for letter in "qkv"]
        if (
            name in variables
            or not joined
            or not all(part in variables for part in parts)
        ):
            values[name] = state[key] if name in variables else None
            continue
        array = np.asarray(whole(state[key]))
        if array.ndim and len(array) == sum(variables[part].shape[0] for part in parts):
            values.update(zip(parts, np.split(array, 3), strict=True))
        else:
            values[name] = None
    return values


def compare(
    needed: Mapping[str, Type],
    types: Mapping[str, Type | None],
    strict: bool,
    who: str,
    wrong: Iterable[tuple[str, list[str]]] = (),
) -> Keys:
    """The names without a partner; an error names all that does not fit, at once.

    Another shape, other axes or a kind of number that loses something is an error; so
    are missing and unexpected names when `strict`. What has no type is not looked at.
    """
    keys = Keys(
        [k for k in needed if k not in types], [k for k in types if k not in needed]
    )
    pairs = [
        (k, t, needed[k]) for k, t in types.items() if t is not None and k in needed
    ]
    others = [pair for pair in pairs if pair[1] is not pair[2]]  # equal types are one
    misfits = [
        f"{k} is {t.shape}, here {mine.shape}"
        for k, t, mine in others
        if t.shape != mine.shape
    ]
    narrowed = [
        f"{k} is {t.dtype.name}, here {mine.dtype.name}"
        for k, t, mine in others
        if _rank(t) > _rank(mine)
    ]
    renamed = [
        f"{k} is {t}, here {mine}"
        for k, t, mine in others
        if t.axes and mine.axes and t.shape == mine.shape and t.axes != mine.axes
    ]
    problems = [("misshapen", misfits), ("of another kind", narrowed), *wrong]
    problems += [("of other axes", renamed)]
    if strict:
        problems += [
            ("missing", keys.missing_keys),
            ("unexpected", keys.unexpected_keys),
        ]
    if any(names for _, names in problems):
        text = "; ".join(f"{what}: {_shown(n)}" for what, n in problems if n)
        hint = "strict=False leaves out missing and unexpected names"
        if renamed:
            hint += "; dict(td.load(path)) has arrays without axes, to load by position"
        raise ModelFileError(f"the state does not fit {who}: {text}", hint=hint)
    return keys


def one_value(
    named: Iterable[tuple[str, Variable, Array]],
) -> list[tuple[Variable, Array]]:
    """Each Variable once with its array; a state in which one that several names share
    has several values is a ModelFileError."""
    first_of: dict[int, tuple[str, Variable, Array]] = {}
    for name, variable, array in named:
        first, _, other = first_of.setdefault(id(variable), (name, variable, array))
        if other is not array and not _alike(other, array):
            raise ModelFileError(
                f"{first!r} and {name!r} are one parameter here, with different values "
                "in the state",
                hint="leave one out (rename={name: None}), or give the parts their own",
            )
    return [(variable, array) for _, variable, array in first_of.values()]


def _alike(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def assigned(where: str, variable: Variable, value: Any) -> None:
    """Make an array the value of the Variable that an attribute holds."""
    try:
        if value is None:
            raise ArgumentError(
                f"it holds {variable.name!r}, {variable.type}, which None does not end",
                hint="`del` the attribute first to do without it",
            )
        variable.assign(value)
    except TreadleError as error:
        raise error.located(where) from None


def _rank(type_: Type) -> int:
    return _RANK.index(kind(type_.dtype))


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def in_dtype(value: Any, dtype: DType, converted: dict[int, Variable]) -> Any:
    """An attribute with the floats in it as Variables of `dtype`, each made once."""
    if isinstance(value, Variable):
        if kind(value.dtype) != "float" or value.dtype == dtype:
            return value
        if isinstance(value, Placeholder):
            return value
        known = converted.get(id(value))
        if known is None:
            known = converted[id(value)] = type(value)(
                value.numpy().astype(dtype), name=value.name, dtype=dtype,
                trainable=value.trainable, axes=value.axes, sparse=value.sparse,
            )  # fmt: skip
            known.frozen = value.frozen
        return known
    if isinstance(value, dict):
        entries = {k: in_dtype(v, dtype, converted) for k, v in value.items()}
        same = all(entries[k] is v for k, v in value.items())
        return value if same else entries
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        items = [in_dtype(v, dtype, converted) for v in value]
        same = all(a is b for a, b in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return value


def dotted(prefix: str, name: str) -> str:
    """A name below another one."""
    return f"{prefix}.{name}" if prefix else name


def members(name: str, value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """The Variables and modules, of this kind, in an attribute; the path to each."""
    if isinstance(value, (Variable, kind)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            yield from members(f"{name}.{k}", item, kind)
    elif isinstance(value, dict):
        for k, item in value.items():
            if not isinstance(k, (str, int)) and isinstance(item, (Variable, kind)):
                raise ArgumentError(f"parts of a module have names, not {k!r}")
            yield from members(f"{name}.{k}", item, kind)
