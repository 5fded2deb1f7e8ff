"""td.save and td.load: networks, optimizers and arrays in files of any format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ModelFileError
from treadle.base.types import Names, Type
from treadle.graph.operators import Operand
from treadle.graph.variable import Variable
from treadle.io.checkpoint import checkpoint_arrays
from treadle.io.files import MAX_BYTES, PathLike
from treadle.io.format import Contents
from treadle.io.graph import contents_of
from treadle.io.source import Buffer, is_buffer, place_of
from treadle.io.tensors import check_size, listed, read_item, write_file
from treadle.nn.module import Module
from treadle.nn.state import Keys, Rename, choose, compare, dotted, one_value
from treadle.optim.state import OptimizerState
from treadle.runtime.computation import Computation
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import store

Wrong = Iterable[tuple[str, list[str]]]


class Stateful(Protocol):
    """Objects with a state of arrays by name: modules, optimizers, and sets of them."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def check_state(
        self, types: Mapping[str, Type | None], strict: bool = True, wrong: Wrong = ()
    ) -> Keys: ...

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Any: ...


class Arrays(dict[str, Array]):
    """Arrays by name, as a file had them: with its metadata, the names of their axes,
    those of its lookup parameters where the format tells, and what did not fit where
    they were loaded."""

    def __init__(
        self,
        arrays: Mapping[str, Array],
        metadata: Mapping[str, str],
        tables: frozenset[str] = frozenset(),
        axes: Mapping[str, Names] | None = None,
    ) -> None:
        super().__init__(arrays)
        self.metadata = dict(metadata)
        self.tables = tables
        self.axes = dict(axes or {})
        self.keys_left = Keys([], [])

    def __missing__(self, name: str) -> Arrays:
        """The part of this name: the arrays whose names follow it after a dot."""
        start = f"{name}."
        part = {k.removeprefix(start): k for k in self if k.startswith(start)}
        if not part:
            raise KeyError(name)
        return Arrays(
            {k: self[full] for k, full in part.items()},
            self.metadata,
            frozenset(k for k, full in part.items() if full in self.tables),
            {k: self.axes[full] for k, full in part.items() if full in self.axes},
        )


def save(
    target: PathLike | BinaryIO,
    what: Any,
    *,
    metadata: Mapping[str, str] | None = None,
    example: Sequence[Any] | None = None,
    format: str | None = None,
    key: str | bytes | None = None,
) -> None:
    """Write arrays by name, whole or not at all, to files of any format.

    `what` is a Module, an optimizer, Variables (by their names), or a mapping from
    names to arrays, tensors and any of these, whose names follow after a dot; or a
    computation with its graph, which `td.load_computation` makes a callable again, and
    with an `example` of its inputs the machine code that a call with these needs. The
    ending tells the format unless `format` does; to an open binary file it must.
    Axes keep their names. With a `key` the header of a .bin is encrypted as Marian
    does: the names and shapes, not the numbers and not the metadata; needs the package
    cryptography. Raises ModelFileError, and leaves a file that was there before as it
    was.

    >>> import tempfile
    >>> layer = td.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.save(f"{folder}/a.npz", {"net": layer, "rate": 0.5})
    ...     sorted(td.load(f"{folder}/a.npz"))
    ['net.bias', 'net.weight', 'rate']
    """
    if isinstance(what, (str, os.PathLike)):
        raise ArgumentError(
            "the file comes first", hint=f"td.save({os.fspath(what)!r}, what)"
        ).located("save")
    if isinstance(what, Computation):
        write_file(target, contents_of(what, metadata or {}, example), format, key)
        return
    if example is not None:
        raise ArgumentError("only a computation is saved with an example of its inputs")
    arrays: dict[str, Any] = {}
    tables, axes = set(), dict[str, Names]()
    items = list(_values("", what))
    # Of one moment, whoever assigns meanwhile.
    values = iter(evaluate([source for _, _, source in items if source is not None]))
    for name, value, source in items:
        if name in arrays:
            raise ArgumentError(f"two values are named {name!r}")
        arrays[name] = value if source is None else next(values)
        if source is not None and source.axes is not None:
            axes[name] = source.axes
        if isinstance(source, Variable) and source.sparse:
            tables.add(name)
    if isinstance(what, Arrays):
        metadata = {**what.metadata, **(metadata or {})}
        tables |= what.tables
        axes |= {name: names for name, names in what.axes.items() if name in arrays}
    contents = Contents(arrays, metadata or {}, frozenset(tables), axes)
    write_file(target, contents, format, key)


def load(
    source: PathLike | Buffer | Mapping[str, Any] | Iterable[tuple[str, Any]],
    what: Any = None,
    *,
    rename: Rename | None = None,
    prefix: str = "",
    strict: bool = True,
    copy: bool = True,
    format: str | None = None,
    max_bytes: int = MAX_BYTES,
    key: str | bytes | None = None,
) -> Arrays:
    """The arrays of a file by name, put into `what` if that is given, all or none.

    The source is a path, the bytes of a file, or arrays by name; the folder of a
    snapshot is read as one file, with names as "model.weight". `what` is as in
    `td.save`: what was saved with it fits it. Only names that begin with `prefix` are
    taken, without it, and renamed: by a function or a mapping, where keys that end in
    "." rename beginnings and what becomes None is left out. Names that are missing,
    unexpected, of another shape or other axes are told at once, before an array is
    read; `strict=False` lets the first two pass and tells them in `keys_left`. With
    `copy=False` arrays are read-only parts of the mapped file (.bin, .safetensors),
    which nobody may write to meanwhile; files that Treadle replaces stay whole. `key`
    is that of an encrypted .bin: the text Marian has as AES_KEY, or a key file's bytes.
    A file is data: nothing in it runs. Raises ModelFileError.

    >>> import tempfile, treadle as td
    >>> a, b = td.nn.Linear(3, 2), td.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.save(f"{folder}/a.bin", a)
    ...     loaded = td.load(f"{folder}/a.bin", b)
    >>> bool((a.weight == b.weight).all())
    True
    """
    target = None if what is None else _stateful("", what)
    source = _opened(source)
    if isinstance(source, Mapping):
        taken = choose(source, rename, prefix)
        pairs = taken.names.items()
        arrays = {k: np.array(whole(source[v]), copy=copy or None) for k, v in pairs}
        axes = _named(getattr(source, "axes", {}), taken.names)
        loaded = Arrays(arrays, getattr(source, "metadata", {}), axes=axes)
        types = {k: Type(a.shape, a.dtype, axes.get(k)) for k, a in arrays.items()}
        _check("the arrays", target, types, strict, taken.wrong, loaded)
    else:
        with listed(source, format=format, mapped=not copy, key=key) as (file, listing):  # type: ignore[arg-type]
            taken = choose(listing.items, rename, prefix)
            items = {k: listing.items[v] for k, v in taken.names.items()}
            types = {k: item.type for k, item in items.items()}
            axes = {k: t.axes for k, t in types.items() if t.axes is not None}
            loaded = Arrays({}, listing.metadata, axes=axes)
            loaded.tables = _taken(listing.tables, taken.names)
            _check(place_of(source), target, types, strict, taken.wrong, loaded)
            check_size(items, max_bytes)
            for name, item in items.items():
                if target is None or name not in loaded.keys_left.unexpected_keys:
                    loaded[name] = read_item(file, listing, item)
    if target is not None:
        target.load_state_dict(loaded, strict=False)
    return loaded


def _check(
    place: str,
    target: Stateful | None,
    types: Mapping[str, Type],
    strict: bool,
    wrong: Sequence[tuple[str, list[str]]],
    loaded: Arrays,
) -> None:
    """Note in `loaded` what does not fit, or raise if that is too much."""
    try:
        if target is not None:
            loaded.keys_left = target.check_state(types, strict, wrong)
        else:
            compare({}, {}, strict, "what is asked for", wrong)
    except ModelFileError as problem:
        message = f"{place}: {problem.message}"
        raise ModelFileError(message, hint=problem.hint) from problem


def _is_file(source: Any) -> bool:
    return is_buffer(source) or isinstance(source, str) or hasattr(source, "__fspath__")


def _opened(source: Any) -> Any:
    """A source as a file or a mapping: pairs and folders are neither."""
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        return checkpoint_arrays(source)
    return (
        source if isinstance(source, Mapping) or _is_file(source) else _by_name(source)
    )


def _by_name(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for pair in pairs:
        if not (
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
        ):
            raise ArgumentError(
                "arrays are loaded from a path, bytes, or pairs of a name and an array"
            )
        if pair[0] in unique:
            raise ModelFileError(f"the arrays: {pair[0]!r}: the name is given twice")
        unique[pair[0]] = pair[1]
    return unique


def _taken(tables: frozenset[str], names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name, stored in names.items() if stored in tables)


def _named(axes: Mapping[str, Names], names: Mapping[str, str]) -> dict[str, Names]:
    return {name: axes[stored] for name, stored in names.items() if stored in axes}


# Of states that are the values of Variables, to be had at one moment.
_PLAIN = (Module.state_dict, OptimizerState.state_dict)


def _values(name: str, what: Any) -> Iterator[tuple[str, Any, Operand | None]]:
    """The name and the value of everything below `what`, or the Tensor or Variable that
    it is of."""
    if isinstance(what, Variable):
        yield name or what.name, None, what
    elif isinstance(what, Operand):
        yield name, None, what
    elif getattr(type(what), "state_dict", None) in _PLAIN:
        variables = what._state_variables()
        for key, variable in variables.items():
            yield dotted(name, key), None, variable
        if isinstance(what, OptimizerState):
            for key, value in what._waiting.items():
                yield dotted(name, key), value, None
    elif hasattr(what, "state_dict"):
        for key, value in what.state_dict().items():
            yield dotted(name, key), value, None
    elif isinstance(what, Mapping):
        for key, value in what.items():
            if not isinstance(key, str):
                raise ArgumentError(f"arrays are saved by name, not by {key!r}")
            yield from _values(dotted(name, key), value)
    elif isinstance(what, (list, tuple)) and all(isinstance(v, Variable) for v in what):
        for variable in what:
            yield from _values(dotted(name, variable.name), variable)
    elif name:
        yield name, what, None
    else:
        raise ArgumentError(
            f"a {type(what).__name__} has no names to be saved by",
            hint="save a dict of arrays, a Module, an optimizer or Variables",
        )


def _stateful(name: str, what: Any) -> Stateful:
    """The object that values can be loaded into, from a user's argument."""
    if isinstance(what, Module) and _is_plain(type(what)):
        return _Variables(what._state_variables(), type(what).__name__)
    if hasattr(what, "check_state"):
        return what
    if isinstance(what, Variable):
        return _Variables({what.name: what})
    if isinstance(what, (list, tuple)) and all(isinstance(v, Variable) for v in what):
        return _Variables({v.name: v for v in what})
    if isinstance(what, Mapping):
        alone = {k: v for k, v in what.items() if isinstance(v, Variable)}
        parts = {k: _stateful(k, v) for k, v in what.items() if k not in alone}
        return _Parts({"": _Variables(alone), **{f"{k}.": v for k, v in parts.items()}})
    raise ArgumentError(
        f"nothing can be loaded into a {type(what).__name__}"
        + (f" ({name!r})" if name else ""),
        hint="load into a Module, an optimizer, Variables, or a dict of these",
    )


def _is_plain(kind: type[Module]) -> bool:
    """Whether its state is its Variables, to be looked for once, and no more."""
    names = "check_state", "load_state_dict"
    return all(getattr(kind, n) is getattr(Module, n) for n in names)


class _Variables:
    """Variables by name, as something with a state."""

    def __init__(
        self, variables: Mapping[str, Variable], who: str = "the variables"
    ) -> None:
        self.variables, self.who = variables, who

    def state_dict(self) -> dict[str, Array]:
        named = self.variables
        return dict(zip(named, evaluate(list(named.values())), strict=True))

    def check_state(
        self, types: Mapping[str, Type | None], strict: bool = True, wrong: Wrong = ()
    ) -> Keys:
        needed = {name: v.type for name, v in self.variables.items()}
        return compare(needed, types, strict, self.who, wrong)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        known = self.variables.items()
        store(one_value([(k, v, state[k]) for k, v in known if k in state]))


class _Parts:
    """Several things with a state, each with what its names begin with."""

    def __init__(self, parts: Mapping[str, Stateful]) -> None:
        self.parts = parts

    def _split(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The names of each part, without their beginnings; the longest fits."""
        parts: dict[str, list[str]] = {start: [] for start in self.parts}
        for name in names:
            start = max(filter(name.startswith, self.parts), key=len)
            parts[start].append(name[len(start) :])
        return parts

    def state_dict(self) -> dict[str, Any]:
        return {
            start + name: value
            for start, part in self.parts.items()
            for name, value in part.state_dict().items()
        }

    def check_state(
        self, types: Mapping[str, Type | None], strict: bool = True, wrong: Wrong = ()
    ) -> Keys:
        left, problems = Keys([], []), []
        for start, names in self._split(types).items():
            wanted = {name: types[start + name] for name in names}
            try:
                keys = self.parts[start].check_state(wanted, strict, wrong)
            except ModelFileError as problem:
                problems.append(f"{start.rstrip('.') or 'here'}: {problem.message}")
                hint = problem.hint
            else:
                left.missing_keys.extend(start + k for k in keys.missing_keys)
                left.unexpected_keys.extend(start + k for k in keys.unexpected_keys)
            wrong = ()
        if problems:
            raise ModelFileError("; ".join(problems), hint=hint)
        return left

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        for start, names in self._split(state).items():
            part = {name: state[start + name] for name in names}
            self.parts[start].load_state_dict(part, strict)
