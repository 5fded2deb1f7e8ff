"""Files of torch.save that are wrong, and what is said of each."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from treadle.io.torch.file import MOST_VALUES
from treadle.io.torch.pickle import MOST_CODES

PART = 8  # as of hostile.py
FLOATS = struct.pack("<6f", *range(6))


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def call(name: str, *args: bytes) -> bytes:
    module, _, own = name.rpartition(".")
    return f"c{module}\n{own}\n".encode() + b"(" + b"".join(args) + b"tR"


def storage(kind: str = "torch.FloatStorage", key: str = "0") -> bytes:
    module, _, own = kind.rpartition(".")
    named = f"c{module}\n{own}\n".encode()
    parts = [text("storage"), named, text(key), text("cpu"), number(6)]
    return b"(" + b"".join(parts) + b"tQ"


def tensor(
    shape: bytes = numbers(2, 3),
    strides: bytes = numbers(3, 1),
    offset: bytes = number(0),
    of: bytes | None = None,
    by: str = "torch._utils._rebuild_tensor_v2",
) -> bytes:
    hooks = call("collections.OrderedDict")
    return call(by, of or storage(), offset, shape, strides, b"\x89", hooks)


def archive(
    pickle: bytes,
    data: bytes = FLOATS,
    *more: tuple[str, bytes],
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """An archive of a pickle without its beginning and end, and one storage."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        made.writestr(zipfile.ZipInfo("a/data.pkl"), b"\x80\2" + pickle + b".")
        made.writestr(zipfile.ZipInfo("a/data/0"), data, compress_type=method)
        for name, content in more:
            made.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def named(value: bytes, name: str = "w") -> bytes:
    return b"}" + text(name) + value + b"s"


def one(**parts: Any) -> bytes:
    return archive(named(tensor(**parts)))


def deep() -> bytes:
    return archive(b"]" * 100 + b"a" * 99)


def cycle() -> bytes:
    return archive(b"]q\0h\0a")


def doubled() -> bytes:
    """Each list holds the one before twice: 2**40 values."""
    codes = b"]q\0"
    for _ in range(40):
        codes += b"](h\0h\0eq\0"
    return archive(codes)


def many(codes: bytes, count: int) -> Callable[[], bytes]:
    return lambda: archive(b"](" + codes * (count // PART) + b"e")


TORCH: dict[str, tuple[Any, str, str]] = {
    "empty": (b"", "", "empty"),
    "a pickle": (b"\x80\2}q\0.", "", "before 1.6"),
    "legacy": (b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "", "before 1.6"),
    "no zip": (b"hello, this is no file of torch", "", "not a zip"),
    "no pickle": (b"PK\5\6" + bytes(18), "", "there is no data.pkl"),
    "a script": (
        archive(named(tensor()), FLOATS, ("a/constants.pkl", b"")), "", "TorchScript",
    ),
    "big-endian": (
        archive(named(tensor()), FLOATS, ("a/byteorder", b"big")), "", "little-endian",
    ),
    "twice": (
        archive(named(tensor()), FLOATS, ("a/data/1", b"")).replace(
            b"a/data/1", b"a/data/0"
        ),
        "", "twice",
    ),
    "system": (
        archive(named(call("os.system", text("true")))), "data.pkl", "names os.system",
    ),
    "eval": (
        archive(named(call("builtins.eval", text("1")))), "data.pkl", "builtins.eval",
    ),
    "a module": (
        archive(b"ctorch.nn.modules.linear\nLinear\n)\x81"), "data.pkl",
        "names torch.nn.modules.linear.Linear",
    ),
    "bytes that load": (
        archive(named(call("torch.storage._load_from_bytes", text("")))), "data.pkl",
        "names torch.storage._load_from_bytes",
    ),
    "new object": (archive(b"ctorch\nSize\n)\x81"), "data.pkl", "NEWOBJ"),
    "extension": (archive(b"\x82\1"), "data.pkl", "EXT1"),
    "text of Python 2": (archive(b"Va\n"), "data.pkl", "UNICODE"),
    "instance": (archive(b"(ios\nsystem\n"), "data.pkl", "INST"),
    "called text": (archive(text("os") + b")R"), "data.pkl", "it calls str"),
    "called dtype": (archive(b"ctorch\nfloat32\n)R"), "data.pkl", "it calls"),
    "attributes of a list": (archive(b"]}b"), "data.pkl", "something else"),
    "nothing on the stack": (archive(b"0"), "data.pkl", "POP"),
    "no mark": (archive(b"t"), "data.pkl", "mark is missing"),
    "unknown memo": (archive(b"h\5"), "data.pkl", "not as torch writes it"),
    "list as a key": (archive(b"}]Ns"), "data.pkl", "neither text nor a number"),
    "key alone": (archive(b"}(Nu"), "data.pkl", "no value"),
    "no end": (archive(named(tensor()))[:-1], "", "zip"),
    "number alone": (archive(number(3)), "", "no tensors by name"),
    "storage of another word": (
        archive(b"(" + text("module") + text("a") + text("b") + b"tQ"), "data.pkl",
        "a storage is not",
    ),
    "tensor of no storage": (one(of=b"N"), "data.pkl", "not of a storage"),
    "unknown storage": (one(of=storage("torch.QInt8Storage")), "data.pkl", "QInt8"),
    "storage not there": (one(of=storage(key="7")), "w", "is not in the file"),
    "storage out of the folder": (one(of=storage(key="../0")), "w", "not in the file"),
    "dtype missing": (
        one(of=storage("torch.storage.UntypedStorage")), "data.pkl", "no dtype",
    ),
    "negative extent": (one(shape=numbers(2, -3)), "data.pkl", "whole numbers"),
    "negative stride": (one(strides=numbers(-3, 1)), "data.pkl", "whole numbers"),
    "negative offset": (one(offset=number(-1)), "data.pkl", "not of a storage"),
    "strides are few": (one(strides=numbers(3)), "data.pkl", "as many strides"),
    "beyond the end": (one(offset=number(1)), "w", "ends at element 7"),
    "strides beyond": (one(strides=numbers(4, 1)), "w", "ends at element 7"),
    "huge offset": (one(offset=number(2**62)), "w", "ends at element"),
    "huge shape": (one(shape=numbers(2**31, 2**31)), "w", "is too large"),
    "many dimensions": (
        one(shape=numbers(*[1] * 40), strides=numbers(*[1] * 40)), "w", "too many",
    ),
    "expanded": (
        one(shape=numbers(2**20, 2**10), strides=numbers(0, 0)), "",
        "are not in the file",
    ),
    "compressed": (
        archive(named(tensor()), bytes(1000), method=zipfile.ZIP_DEFLATED), "",
        "compressed or encrypted",
    ),
    "path": (archive(named(tensor(), "../w")), "../w", "not a name"),
    "dunder": (archive(named(tensor(), "__class__")), "__class__", "not a name"),
    "no name": (archive(named(tensor(), "")), "", "not a name"),
    "two of a name": (
        archive(b"}" + text("a.b") + tensor() + b"s" + text("a")
                + named(tensor(), "b") + b"s"),
        "a.b", "twice",
    ),
    "metadata": (
        archive(named(tensor()), FLOATS, ("a/.treadle.json", b"[]")), ".treadle.json",
        "not text by name",
    ),
    "deep": (deep, "", "nested too deeply"),
    "cycle": (cycle, "", "nested too deeply"),
    "doubled": (doubled, "", "holds too much"),
    "millions of codes": (
        many(b"]", MOST_CODES * 2), "data.pkl", f"more than {MOST_CODES // PART} codes",
    ),
    "many numbers": (many(b"K\1", MOST_VALUES * 2), "", "holds too much"),
}  # fmt: skip
