"""The just-in-time compiler: code found in memory, read from disk, or compiled.

Code is known by what it was made from: the same text under the same host and versions
is one entry, whatever program asks. Entries not used for longest leave the table when
it is full, and their code is freed when nobody holds its address either.
"""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import llvmlite.binding as llvm
import numpy as np

import treadle
from treadle.base.allocate import headroom
from treadle.base.caches import cached
from treadle.base.locks import around_fork, lock
from treadle.engines.native.codegen import compiler, half
from treadle.engines.native.codegen.cache import disk_cache, key
from treadle.engines.native.codegen.compiler import compile_texts
from treadle.engines.native.codegen.texts import ENTRIES, TABLES, place_of
from treadle.engines.native.system.block import PAGE
from treadle.engines.native.system.host import Host, host

_FUNCTIONS = 8192  # in the table at most: each has two of a process's 65,530 mappings
_BYTES = 128 << 20  # of memory that those in the table take
_CARRIED = 64 << 20  # of object code that came with files
_LIBRARY = 36 << 10  # bytes that the linker keeps of each library it has loaded
GROWTH = 64  # bytes that compiling takes for one of text
_LIBRARIES = 256  # loaded by one linker, which keeps 9 KB of each until it goes itself


class Address(int):
    """The address of a function. The code stays loaded as long as this object lives.

    Hold on to it (or to the dict it came in), not only to a copy of the number.
    """

    library: _Library


class _Library:
    """Functions loaded together; unloaded when the last of their addresses has gone."""

    def __init__(self, tracker: llvm.orcjit.ResourceTracker) -> None:
        self.tracker = tracker


@dataclass(frozen=True)
class Entry:
    """A function in the table: its name in the text, its code, the memory it takes."""

    name: str
    address: Address
    size: int


class _PartTable:
    """The addresses of the parts that functions go on in, of those that are there."""

    def __init__(self) -> None:
        self.addresses = np.zeros(ENTRIES, np.int64)
        self.held: dict[int, Address] = {}

    def add(self, index: int, address: Address) -> None:
        """Put a part in its place, if there is none: it may be running."""
        self.addresses[index] = self.held.setdefault(index, address)


@dataclass
class CompileStats:
    """Statistics since the process began: numbers of functions and seconds.

    functions and bytes: in the table now.
    """

    compiled: int = 0
    compile_seconds: float = 0.0
    from_disk: int = 0
    disk_seconds: float = 0.0
    loaded: int = 0
    load_seconds: float = 0.0
    functions: int = 0
    bytes: int = 0


_lock = lock()
_table: OrderedDict[bytes, Entry] = OrderedDict()
_stats = CompileStats()
_carried: dict[bytes, bytes] = {}  # object code that came with files
_lasting: dict[bytes, str] = {}  # the texts of the engine's own functions
_parts: dict[tuple[Host, str], _PartTable] = {}  # for good: code has their addresses
# Where what is asked for is noted.
_noted: ContextVar[dict[bytes, bytes] | None] = ContextVar("noted", default=None)


def compile_functions(
    texts: Mapping[str, str],
    *,
    lasting: bool = False,
) -> dict[str, int]:
    """The addresses of functions by name, each from a text that defines it.

    A text is a module of LLVM IR; what else it defines must be `internal`. The values
    are `Address` objects: the code is sure to exist as long as they do. `lasting` are
    the engine's own, which are asked for once and needed by everything.
    """
    machine = host()
    places = {name: place for name, x in texts.items() if (place := place_of(x))}
    with _lock:
        held = {
            name: address
            for name, (table, index) in places.items()
            if (address := _parts_of(machine, table).held.get(index)) is not None
        }
        if held and _noted.get() is None:
            texts = {name: text for name, text in texts.items() if name not in held}
        keys = {name: _key(name, text, machine) for name, text in texts.items()}
        if lasting:
            _lasting.update({k: texts[name] for name, k in keys.items()})
        noted = _noted.get()
        if noted is not None:
            asked = {k: texts[name] for name, k in keys.items() if k not in noted}
            noted |= _objects(asked, machine)
        fresh: dict[str, Entry] = {}
        entries = {k: _table[k] for k in keys.values() if k in _table}
        missing = {k: name for name, k in keys.items() if k not in entries}
        if missing:
            headroom(GROWTH * sum(len(texts[name]) for name in missing.values()))
            wanted = {k: texts[name] for k, name in missing.items()}
            objects = _objects(wanted, machine)
            named = {name: objects[k] for k, name in missing.items()}
            fresh = _load(named, machine)
            entries |= {k: fresh[name] for k, name in missing.items()}
        for k, entry in entries.items():
            _table.pop(k, None)
            _table[k] = entry  # the newest
        if missing:
            _trim()
        found: dict[str, Address] = {n: entries[k].address for n, k in keys.items()}
        for name, (table, index) in places.items():
            if name in found:
                _parts_of(machine, table).add(index, found[name])
        return {**found, **held}


def parts_there(table: str) -> Mapping[int, int]:
    """The addresses of those parts of a table that are compiled for this machine,
    now and later.
    """
    return _parts_of(host(), table).held


@contextmanager
def recording() -> Iterator[dict[bytes, bytes]]:
    """The object code, by key, of all functions that are asked for inside, and of the
    engine's own."""
    with _lock:
        noted = _objects(_lasting, host())
    before = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(before)


def carry(objects: Mapping[bytes, bytes]) -> None:
    """Take object code, by key, as compiled: it is run when it is asked for."""
    with _lock:
        _carried.update(objects)
        while sum(map(len, _carried.values())) > _CARRIED:
            del _carried[next(iter(_carried))]


def table() -> list[Entry]:
    """The functions in memory, the longest unused first."""
    with _lock:
        return list(_table.values())


def clear() -> None:
    """Forget all functions; the code of those that are held stays loaded."""
    with _lock:
        _table.clear()
        _carried.clear()
    trim = getattr(ctypes.pythonapi, "malloc_trim", None)
    if trim is not None:  # compiling takes and returns pieces of all sizes
        trim(0)


def stats() -> CompileStats:
    """Counts of what was compiled, read and loaded, and the time that took."""
    with _lock:
        size = sum(entry.size for entry in _table.values())
        return replace(_stats, functions=len(_table), bytes=size)


def assembly(text: str) -> str:
    """The machine instructions of a text on this host, to look at."""
    return compiler.assembly(text, host())


def optimized(text: str) -> str:
    """The IR of a text that code generation begins with, to look at."""
    return compiler.optimized(text, host())


# -- object code -----------------------------------------------------------------------


def _key(name: str, text: str, machine: Host) -> bytes:
    """The fingerprint of all that the machine code of a function depends on."""
    versions = (*compiler.VERSIONS, treadle.__version__)
    facts = (machine.triple, machine.cpu, machine.features, *versions)
    return key(name, text, *facts, compiler.FLAGS)


def _objects(texts: Mapping[bytes, str], machine: Host) -> dict[bytes, bytes]:
    """The object code of texts by their keys, from disk where it is."""
    cache = disk_cache()
    at_hand = _carried, _noted.get() or {}
    objects = {k: source[k] for source in at_hand for k in texts if k in source}
    known = len(objects)
    start = time.perf_counter()
    for k in texts.keys() - objects if cache else ():
        content = cache.read(k) if cache else None
        if content is not None:
            objects[k] = content
    middle = time.perf_counter()
    compiled = compile_texts(
        {k: t for k, t in texts.items() if k not in objects}, machine
    )
    end = time.perf_counter()
    for k, content in compiled.items() if cache else ():
        if cache and not cache.write(k, content):
            break  # no space or no right: not worth more attempts now
    _stats.from_disk += len(objects) - known
    _stats.compiled += len(compiled)
    _stats.compile_seconds += end - middle
    _stats.disk_seconds += middle - start + time.perf_counter() - end
    return objects | compiled


# -- loading ---------------------------------------------------------------------------


def _load(objects: Mapping[str, bytes], machine: Host) -> dict[str, Entry]:
    """Load objects, together if their internal names allow it."""
    start = time.perf_counter()
    try:
        addresses = _link(objects, machine)
    except RuntimeError:
        if len(objects) == 1:
            raise
        addresses = {}
        for name, data in objects.items():
            addresses |= _link({name: data}, machine)
    _stats.loaded += len(objects)
    _stats.load_seconds += time.perf_counter() - start
    return {n: Entry(n, a, _cost(objects, n)) for n, a in addresses.items()}


def _cost(objects: Mapping[str, bytes], name: str) -> int:
    """The memory a function takes that was loaded among others: pages of code, pages of
    constants, and its share of what the linker keeps.
    """
    pages = -(-len(objects[name]) // PAGE) + 2
    return pages * PAGE + _LIBRARY // len(objects)


def _parts_of(machine: Host, table: str) -> _PartTable:
    parts = _parts.get((machine, table))
    if parts is None:
        parts = _parts[machine, table] = _PartTable()
    return parts


def _link(objects: Mapping[str, bytes], machine: Host) -> dict[str, Address]:
    """Make a library of objects; addresses of the functions they are named by."""
    builder = llvm.JITLibraryBuilder().add_current_process()
    for name, data in objects.items():
        builder.add_object_img(data).export_symbol(name)
    for name in half.TEXTS:
        word = name.encode()
        if any(word in data and n not in half.TEXTS for n, data in objects.items()):
            builder.import_symbol(name, _half_function(name, machine))
    named = {x.decode() for data in objects.values() for x in TABLES.findall(data)}
    for name in named:
        builder.import_symbol(name, _parts_of(machine, name).addresses.ctypes.data)
    linker = _linker(machine)
    number = linker.count = linker.count + 1  # also of attempts, which take a name too
    tracker = builder.link(linker.session, f"treadle.{number}")
    library = _Library(tracker)
    addresses = {}
    for name in objects:
        addresses[name] = Address(tracker[name])
        addresses[name].library = library
    return addresses


@dataclass
class _Linker:
    """A session of LLVM's ORC linker, and how many libraries it has made."""

    session: llvm.orcjit.LLJIT
    count: int = 0


_linkers: dict[Host, _Linker] = {}


def _linker(machine: Host) -> _Linker:
    """The linker in use. A full one goes when the last of its libraries does.

    It places all sections of an object within reach of each other, as the small code
    model needs, and reports what cannot be found instead of ending the process.
    """
    linker = _linkers.get(machine)
    if linker is None or linker.count >= _LIBRARIES:
        session = llvm.create_lljit_compiler(
            compiler.make_machine(machine), use_jit_link=True, suppress_errors=True
        )
        linker = _linkers[machine] = _Linker(session)
    return linker


@cached(1024)
def _half_function(name: str, machine: Host) -> Address:
    """A conversion of half floats, compiled at its first use."""
    code = compiler.compile_texts({b"": half.TEXTS[name]}, machine)[b""]
    return _link({name: code}, machine)[name]


# -- the table -------------------------------------------------------------------------


def _trim() -> None:
    """Drop the entries longest unused while there are too many."""
    size = sum(entry.size for entry in _table.values())
    while len(_table) > _FUNCTIONS or (_table and size > _BYTES):
        _, entry = _table.popitem(last=False)
        size -= entry.size


# A child must not inherit a compilation half done, nor what LLVM is in the middle of.
around_fork(_lock.acquire, _lock.release)
around_fork(compiler.llvm_lock.acquire, compiler.llvm_lock.release)
