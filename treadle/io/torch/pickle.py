"""Pickles of torch.save as data, read and written: the few codes and names in them."""

from __future__ import annotations

import io
import math
import pickletools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base import dtypes
from treadle.base.dtypes import DType

MOST_CODES = 1 << 19  # each may become an object of some 100 bytes
STORAGES: dict[str, DType] = {
    "BFloat16Storage": dtypes.bfloat16,
    "BoolStorage": dtypes.bool_,
    "ByteStorage": dtypes.uint8,
    "CharStorage": dtypes.int8,
    "ComplexDoubleStorage": dtypes.complex128,
    "ComplexFloatStorage": dtypes.complex64,
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "ShortStorage": dtypes.int16,
}
DTYPES = {d.name: d for d in dtypes.ALL}
# Attributes of torch that a checkpoint may hold as they are.
_PLAIN = {"contiguous_format", "preserve_format", "strided"}


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes in a member of the archive; `dtype` is None where a tensor tells it."""

    key: str
    dtype: DType | None


@dataclass(frozen=True, slots=True)
class StorageView:
    """A tensor: elements of a storage, by offset and strides counted in elements."""

    storage: Storage
    dtype: DType
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A global that the pickle names; `makes` is what stands for calling it."""

    text: str
    makes: Callable[..., Any] | None = None
    dtype: DType | None = None


class Ordered(dict[Any, Any]):
    """A collections.OrderedDict, whose attributes torch also writes."""


def _whole(values: Any) -> tuple[int, ...]:
    if type(values) is not tuple or not all(type(n) is int and n >= 0 for n in values):
        raise ValueError("extents and strides are whole numbers")
    return values


def _view(
    storage: Any, offset: Any, shape: Any, strides: Any, *more: Any, dtype: Any = None
) -> StorageView:
    """The view of a tensor, from the arguments of torch._utils._rebuild_tensor_v2."""
    if not isinstance(storage, Storage) or type(offset) is not int or offset < 0:
        raise ValueError("a tensor is not of a storage")
    known = storage.dtype if dtype is None else dtype
    extents, steps = _whole(shape), _whole(strides)
    if known is None or len(extents) != len(steps):
        raise ValueError("a tensor has no dtype, or as many strides as dimensions")
    return StorageView(storage, known, offset, extents, steps)


def _view_of_dtype(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any,
    dtype: Any, *more: Any,
) -> StorageView:  # fmt: skip
    """The same of torch._utils._rebuild_tensor_v3, which tells the dtype."""
    if not isinstance(dtype, Name) or dtype.dtype is None:
        raise ValueError("a tensor has no dtype that is known")
    return _view(storage, offset, shape, strides, dtype=dtype.dtype)


def _parameter(data: Any, *more: Any) -> Any:
    return data


def _device(kind: Any, index: Any = None) -> str:
    return str(kind) if index is None else f"{kind}:{index}"


_KNOWN = {
    "collections.OrderedDict": Name("OrderedDict", Ordered),
    "torch._utils._rebuild_tensor_v2": Name("tensor", _view),
    "torch._utils._rebuild_tensor_v3": Name("tensor", _view_of_dtype),
    "torch._utils._rebuild_parameter": Name("parameter", _parameter),
    "torch._utils._rebuild_parameter_with_state": Name("parameter", _parameter),
    "torch.Size": Name("size", _whole),
    "torch.device": Name("device", _device),
    "torch.storage.UntypedStorage": Name("storage"),
    **{f"torch.{k}": Name(k, dtype=d) for k, d in STORAGES.items()},
    **{f"torch.{k}": Name(f"torch.{k}", dtype=d) for k, d in DTYPES.items()},
    **{f"torch.{k}": Name(f"torch.{k}") for k in _PLAIN},
}


def _named(module: str, name: str) -> Name:
    """The stand-in of a global; those that are not listed here are refused."""
    known = _KNOWN.get(f"{module}.{name}")
    if known is None:
        raise ValueError(
            f"it names {f'{module}.{name}'[:80]}, which would have to run; only "
            "tensors and plain data are read: save net.state_dict()"
        )
    return known


def _stored(persistent: Any) -> Storage:
    """The storage that a persistent id tells."""
    if type(persistent) is not tuple or len(persistent) < 3:
        raise ValueError("a storage is not as torch writes it")
    word, kind, key = persistent[:3]
    if word != "storage" or type(kind) is not Name or type(key) is not str:
        raise ValueError("a storage is not as torch writes it")
    return Storage(key, kind.dtype)


class _Machine:
    """The stack, the marks and the memo of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        """The top of the stack; what stands below a mark is not to be had."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ValueError("a code finds nothing on the stack")
        return self.stack.pop()

    def items(self) -> list[Any]:
        """The items pushed since the last mark."""
        if not self.marks:
            raise ValueError("a mark is missing")
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def top(self, kind: type) -> Any:
        value = self.pop()
        if not isinstance(value, kind):
            raise ValueError("a code finds something else on the stack")
        self.stack.append(value)
        return value

    def last(self, count: int) -> tuple[Any, ...]:
        """The last items pushed, so many."""
        return tuple([self.pop() for _ in range(count)][::-1])

    def memoize(self, key: int) -> None:
        self.memo[key] = self.top(object)

    def called(self) -> Any:
        """The value of the call of a name with its arguments."""
        name, args = self.last(2)
        if type(name) is not Name or name.makes is None or type(args) is not tuple:
            raise ValueError(f"it calls {getattr(name, 'text', type(name).__name__)}")
        return name.makes(*args)

    def extend(self, items: Sequence[Any]) -> None:
        self.top(list).extend(items)

    def attributes(self) -> None:
        """Attributes of an object: of an OrderedDict, and left out."""
        self.pop()
        self.top(Ordered)

    def put_pairs(self, flat: Sequence[Any]) -> None:
        known = self.top(dict)
        if len(flat) % 2:
            raise ValueError("a key has no value")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if type(key) not in (str, int, float, bool, type(None)):
                raise ValueError("a key is neither text nor a number")
            known[key] = value


# Codes that push a value, and others; those without an entry change nothing.
_PUSHES: dict[str, Callable[[_Machine, Any], Any]] = {
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1"), lambda m, x: x),
    **dict.fromkeys(("BINFLOAT", "BINUNICODE", "BINUNICODE8"), lambda m, x: x),
    "SHORT_BINUNICODE": lambda m, x: x,
    "NONE": lambda m, _: None,
    "NEWTRUE": lambda m, _: True,
    "NEWFALSE": lambda m, _: False,
    "EMPTY_TUPLE": lambda m, _: (),
    "EMPTY_LIST": lambda m, _: [],
    "EMPTY_DICT": lambda m, _: {},
    "BINGET": lambda m, x: m.memo[x],
    "LONG_BINGET": lambda m, x: m.memo[x],
    "TUPLE": lambda m, _: tuple(m.items()),
    "TUPLE1": lambda m, _: m.last(1),
    "TUPLE2": lambda m, _: m.last(2),
    "TUPLE3": lambda m, _: m.last(3),
    "GLOBAL": lambda m, x: _named(*x.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: _named(*map(str, m.last(2))),
    "BINPERSID": lambda m, _: _stored(m.pop()),
    "REDUCE": lambda m, _: m.called(),
}
_ACTS: dict[str, Callable[[_Machine, Any], None]] = {
    "BINPUT": lambda m, x: m.memoize(x),
    "LONG_BINPUT": lambda m, x: m.memoize(x),
    "MEMOIZE": lambda m, _: m.memoize(len(m.memo)),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "BUILD": lambda m, _: m.attributes(),
    "APPEND": lambda m, _: m.extend(m.last(1)),
    "APPENDS": lambda m, _: m.extend(m.items()),
    "SETITEM": lambda m, _: m.put_pairs(m.last(2)),
    "SETITEMS": lambda m, _: m.put_pairs(m.items()),
}
_CODES = {*_PUSHES, *_ACTS, "FRAME", "PROTO", "STOP"}
_OPCODES = {op.code: op for op in pickletools.opcodes}


def _step(machine: _Machine, code: str, value: Any) -> None:
    """Run one opcode on the machine."""
    if code in _PUSHES:
        machine.stack.append(_PUSHES[code](machine, value))
    elif code in _ACTS:
        _ACTS[code](machine, value)


def _codes(raw: bytes) -> Iterator[tuple[str, Any]]:
    """Each code and its argument, which is decoded only of codes that torch writes."""
    stream = io.BytesIO(raw)
    while lead := stream.read(1):
        code = _OPCODES.get(lead.decode("latin-1"))
        if code is None or code.name not in _CODES:
            name = code.name if code else repr(lead)
            raise ValueError(f"the pickle has {name}, which torch does not write")
        yield code.name, code.arg.reader(stream) if code.arg else None


def loads(raw: bytes) -> Any:
    """The object of a pickle, with a View for each tensor; ValueError for others.

    >>> loads(b"\\x80\\x02}X\\x01\\x00\\x00\\x00aK\\x01s.")
    {'a': 1}
    >>> loads(b"\\x80\\x02cos\\nsystem\\n.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: it names os.system, which would have to run; only ...
    """
    machine = _Machine()
    try:
        for count, (code, value) in enumerate(_codes(raw)):
            if count >= MOST_CODES:
                raise ValueError(f"more than {MOST_CODES} codes are refused")
            if code == "STOP":
                return machine.pop()
            _step(machine, code, value)
    except (TypeError, LookupError, AttributeError, UnicodeError, AssertionError):
        raise ValueError("the pickle is not as torch writes it") from None
    raise ValueError("the pickle does not end")


_STORAGE = {dtype: name for name, dtype in STORAGES.items()}
_START, _STOP, _MARK, _NONE = b"\x80\2}(", b"u.", b"(", b"N"
_EMPTY, _CALL, _STORED, _TUPLE, _FALSE = b")", b"R", b"Q", b"t", b"\x89"


def written(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The codes of a dict of the arrays, each in a storage of its number.

    >>> from treadle.io.torch.pickle import loads
    >>> loads(written({"w": np.zeros((2, 3), "f4")}))["w"].shape
    (2, 3)
    """
    parts = [_START]
    for k, (name, array) in enumerate(arrays.items()):
        shape = array.shape
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        kind = _global("torch", _STORAGE[array.dtype.newbyteorder("=")])
        key, place = _text(str(k)), _text("cpu")
        storage = [_MARK, _text("storage"), kind, key, place, _number(array.size)]
        parts += [_text(name), _global("torch._utils", "_rebuild_tensor_v2"), _MARK]
        parts += [*storage, _TUPLE, _STORED, _number(0), _numbers(shape)]
        parts += [_numbers(strides), _FALSE]
        parts += [_global("collections", "OrderedDict"), _EMPTY, _CALL, _TUPLE, _CALL]
    return b"".join([*parts, _STOP])


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    raw = text.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _number(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"".join([_MARK, *map(_number, values), _TUPLE])
