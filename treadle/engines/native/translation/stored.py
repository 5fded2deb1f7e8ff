"""Compiled programs on disk, found by the content of their graphs in any process.

Machine code lies there by its text, but to come to that text takes ten times as long as
to read the code. So a program lies there too, by all that it was made from: the
structure of its graph, the options, the host, the files of this package. Both are
written as pickles of plain data: numbers, texts, arrays, dtypes, types and the frozen
dataclasses of this package. What holds anything else (a function of the user's, a table
of data) is compiled by each process, and what is read makes nothing else.
"""

from __future__ import annotations

import hashlib
import io
import math
import operator
import pickle
import sys
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import numpy as np

import treadle
from treadle.base.caches import Cache, lazy
from treadle.base.dtypes import as_dtype
from treadle.base.symbolic import Symbolic, SymbolicNumber, SymbolicTrace
from treadle.base.types import Type
from treadle.engines.native.codegen.cache import key, program_cache
from treadle.engines.native.codegen.code import Code
from treadle.engines.native.codegen.texts import sources
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.timing import first_lines
from treadle.engines.native.system.host import host
from treadle.engines.native.translation.keys import Structure
from treadle.engines.native.translation.symbolic import SymbolicProgram
from treadle.graph.body import Body, sign_of
from treadle.graph.extents import thing_of
from treadle.graph.frame import tracing
from treadle.graph.instantiate import arguments_of
from treadle.graph.leaves import Version
from treadle.graph.origin import Origin, held
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Update
from treadle.program.program import Program

KNOWN = 1 << 14  # ops, types and literals whose digests are kept
PROTOCOL = 5
LARGE = 1 << 18  # bytes of an array that is worth no place on disk
# Classes that are no dataclasses, and functions of others, that make plain data.
CLASSES = Symbolic, SymbolicNumber, SymbolicProgram, SymbolicTrace, Type
FUNCTIONS = (
    *(min, max, math.gcd, np.array, np.eye, operator.lshift, operator.rshift),
    *(operator.pow, operator.and_, operator.or_, operator.xor),
)
SCALARS = int, *{np.dtype(c).type for c in "?bhilqBHILQefd"}
NO_LINE: Origin = None, 0

_digests: Cache[int, bytes] = Cache("digests of structures", KNOWN)


class Stored:
    """The place on disk of what a graph, or one of any extents, is compiled to."""

    def __init__(self, key: Iterable[int], structure: Structure) -> None:
        self._key, self._structure = key, structure

    def read(self, how: Any) -> Any:
        """The entry made of the graph once, or None; `how` tells of it what the graph
        does not."""
        known = self.head(how)
        with suppress(Exception):  # whatever is wrong with it, it is none
            return known and self.load(known[1])

    def head(self, how: Any) -> tuple[Any, bytes] | None:
        """The head of an entry and the bytes behind it; None if there is none."""
        cache, place = program_cache(), self._place(how)
        content = cache.read(place) if cache is not None and place else None
        with suppress(Exception):
            file = io.BytesIO(content or b"")
            return _Reader(file, ()).load(), file.read()
        return None

    def load(self, content: bytes) -> Any:
        """An entry."""
        file = io.BytesIO(zlib.decompress(content))
        return _Reader(file, self._structure.nodes).load()

    def write(self, how: Any, made: Any, head: Any = None) -> None:
        """Keep what was made of the graph, if it is plain data."""
        cache, place = program_cache(), self._place(how)
        if cache is None or place is None:
            return
        with suppress(Exception):
            content = zlib.compress(_written(made, self._structure.nodes), 1)
            cache.write(place, _written(head, ()) + content)

    def _place(self, how: Any) -> bytes | None:
        """The key of an entry; None where the content of a graph cannot be written."""
        if self._facts is None or program_cache() is None:
            return None
        return key(*self._facts, repr(_written(how, (), fast=True)))

    @lazy
    def _facts(self) -> tuple[str, ...] | None:
        """All that decides what a graph is compiled to."""
        state, structure = sources(), self._structure
        if not state:
            return None
        nodes = structure.nodes
        try:
            graph = [str(n) if n >= 0 else _digest(n, nodes).hex() for n in self._key]
        except Exception:
            return None
        versions = treadle.__version__, sys.version, np.__version__
        weights = [
            k
            for k, x in enumerate(nodes)
            if x.serial in structure.leaves and isinstance(x.op, (Version, Update))
        ]
        facts = state, repr(host()), " ".join(graph), repr(weights)
        return "program", *versions, *facts


def _digest(number: int, nodes: Sequence[Tensor]) -> bytes:
    """A name for what has a number in a key, the same in every process."""
    known = _digests.get(number)
    if known is None:
        thing = thing_of(number, nodes)
        if type(thing) is tuple and isinstance(thing[0], type):  # the sign of an op
            thing = next((x.op for x in nodes if sign_of(x.op) == thing), None)
        if thing is None or _is_of_process(thing):
            raise pickle.PicklingError("so much was numbered since")
        known = hashlib.sha256(_written(thing, (), fast=True)).digest()
        _digests[number] = known
    return known


def _is_of_process(x: Any) -> bool:
    """Return True if a thing without extents has a body that a number tells."""
    if type(x) is not tuple:
        return False
    return x[:1] == ("body",) or any(map(_is_of_process, x))


# -- pickles ---------------------------------------------------------------------------


def _written(x: Any, nodes: Sequence[Tensor], fast: bool = False) -> bytes:
    """Something as bytes; `fast`: which are the same for what is equal. Lines are those
    of nodes."""
    file = io.BytesIO()
    writer = _Writer(file, nodes)
    writer.fast = fast
    writer.dump(x)
    return file.getvalue()


class _Writer(pickle.Pickler):
    """Writes plain data, and refuses all else."""

    fast: bool

    def __init__(self, file: io.BytesIO, nodes: Sequence[Tensor]) -> None:
        super().__init__(file, PROTOCOL)
        self._lines = first_lines(nodes)
        # Of each number of bodies a list, in which that of those made of them will be.
        self._bodies: dict[int, list[int]] = {}

    def persistent_id(self, x: Any) -> int | None:
        """The place of the node that has a line, or -1."""
        if type(x) is tuple and len(x) == 2 and isinstance(x[0], CodeType):
            return self._lines.get((id(x[0]), x[1]), -1)
        return None

    def reducer_override(self, x: Any) -> Any:
        kind = type(x)
        if isinstance(x, (type, FunctionType, BuiltinFunctionType)):
            if _is_ours(x):
                return NotImplemented
        elif isinstance(x, np.dtype):
            return as_dtype, (x.name,)
        elif kind is np.ndarray and x.dtype.kind != "O" and x.nbytes <= LARGE:
            return _array, (x.tobytes(), x.dtype, x.shape)
        elif isinstance(x, np.generic):
            return _scalar, (x.tobytes(), x.dtype)
        elif kind in CLASSES or issubclass(kind, tuple):
            return NotImplemented
        elif is_dataclass(kind):
            names = arguments_of(kind)
            return kind, tuple([getattr(x, name) for name in names])
        elif kind is Linked:  # as it was made: what is on disk has no addresses
            plain = None if x.plain is x.program else x.plain
            return _linked, (x.program, plain, x.codes, x.again, x.inside)
        elif kind is Body and x.sign_parts() is not None:
            alike = self._bodies.setdefault(x.number, [])
            return _body, (alike, *_content(x))
        raise pickle.PicklingError(f"{x!r} is no plain data")


class _Reader(pickle.Unpickler):
    """Reads what the other has written."""

    def __init__(self, file: io.BytesIO, nodes: Sequence[Tensor]) -> None:
        super().__init__(file)
        self._nodes = nodes

    def persistent_load(self, place: int) -> Origin:
        return self._nodes[place].origin if place >= 0 else NO_LINE

    def find_class(self, module: str, name: str) -> Any:
        thing = super().find_class(module, name)
        if not _is_ours(thing):
            raise pickle.UnpicklingError(f"{module}.{name} makes no plain data")
        return thing


def _is_ours(x: Any) -> bool:
    """Return True if a class or function makes plain data."""
    if not isinstance(x, type):
        return any(x is f for f in FUNCTIONS) or _is_in_package(x)
    plain = is_dataclass(x) or issubclass(x, tuple) or x in CLASSES
    return (plain and _is_in_package(x)) or x in SCALARS


def _is_in_package(x: Any) -> bool:
    return str(x.__module__).startswith("treadle.")


def _linked(
    program: Program,
    plain: Program | None,
    codes: Sequence[tuple[Code, ...]],
    again: Sequence[int],
    inside: Sequence[tuple[int, int, int]],
) -> Linked:
    known = {id(s): c for s, c in zip(program.steps, codes, strict=True)}
    linked = Linked(program, known=known)
    linked.plain, linked.again, linked.inside = plain or program, again, inside
    return linked


def _content(body: Body) -> Any:
    """The name of a body, its types, what its nodes are, and which are its ends."""
    place = {node.serial: k for k, node in enumerate(body.nodes)}
    nodes = [
        (x.op, x.type, [place[y.serial] for y in x.inputs], x.array) for x in body.nodes
    ]
    ends = body.arguments, body.outputs
    places = [[place[x.serial] for x in end] for end in ends]
    return body.name, body.types, nodes, *places


def _body(
    alike: list[int],
    name: str,
    types: Sequence[Type],
    nodes: Sequence[Any],
    arguments: Sequence[int],
    outputs: Sequence[int],
) -> Body:
    new: list[Tensor] = []
    with tracing("a program"), held():
        for op, type_, read, array in nodes:
            new.append(Tensor(op, tuple([new[k] for k in read]), type_, array))
        ends = [[new[k] for k in end] for end in (arguments, outputs)]
        body = Body(name, *ends).resized(types)
    alike.append(body.number)
    body.number = alike[0]
    return body


def _array(data: bytes, dtype: Any, shape: tuple[int, ...]) -> Any:
    return np.frombuffer(data, dtype).reshape(shape)


def _scalar(data: bytes, dtype: Any) -> Any:
    return np.frombuffer(data, dtype)[0]
