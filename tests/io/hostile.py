"""Files that lie, by format: what each is, and what is said of it.

A row is content, item ("" where no item is known yet) and reason; content that is large
is made when it is asked for.
"""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

import treadle as td
from tests.io.hostile_axes import hostile_axes
from tests.io.hostile_messages import EVENTS
from tests.io.hostile_nervana import NERVANA
from tests.io.hostile_serrano import SERRANO
from tests.io.hostile_torch import TORCH
from treadle.io.tensors import load_arrays

Content = bytes | Callable[[], bytes]
Rows = dict[str, tuple[Content, str, str]]
F4 = b"\0" * 4
PART = 8  # limits that only a file of many things meets are this much lower for it
TWO = np.zeros(2)


# -- .safetensors ------------------------------------------------------------------


def st_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    return size.to_bytes(8, "little") + text + data


def entry(shape: Any, span: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": span}


def one(shape: Any, span: Any, dtype: Any = "F32", data: bytes = F4) -> bytes:
    return st_file({"a": entry(shape, span, dtype)}, data)


def many_entries() -> bytes:
    return st_file({f"n{k}": entry([0], [0, 0]) for k in range(70_000 // PART)})


SAFETENSORS: Rows = {
    "empty": (b"", "", "too few"),
    "only a length": (b"\xff" * 8, "", "does not fit"),
    "huge header": (st_file({}, length=2**62), "", "does not fit"),
    "no dictionary": (st_file([]), "", "not a dictionary"),
    "not JSON": (st_file(b"{]"), "", "cannot be read"),
    "not UTF-8": (st_file(b"{\xff}"), "", "not UTF-8"),
    "nested": (st_file(b'{"a":' * 100_000), "", "nested too deeply"),
    "long number": (st_file(b'{"a":' + b"9" * 5000 + b"}"), "", "digits"),
    "given twice": (st_file(b'{"a":1,"a":2}'), "a", "twice"),
    "no entry": (st_file({"a": 1}), "a", "an entry has"),
    "unknown key": (
        st_file({"a": entry([1], [0, 4]) | {"x": 1}}, F4),
        "a",
        "an entry has",
    ),
    "dtype": (one([1], [0, 4], "F31"), "a", "'F31' is not known"),
    "dtype list": (one([1], [0, 4], []), "a", "is not known"),
    "negative": (one([-1], [0, 4]), "a", "not a shape"),
    "NaN": (one([float("nan")], [0, 4]), "a", "not a shape"),
    "truth value for an extent": (one([True], [0, 4]), "a", "not a shape"),
    "huge": (one([2**63], [0, 4]), "a", "too large"),
    "product": (one([2**32] * 8, [0, 4]), "a", "too large"),
    "zero times huge": (one([0, 2**63], [0, 0], data=b""), "a", "too large"),
    "many dimensions": (one([1] * 33, [0, 4]), "a", "too many"),
    "outside": (one([2], [0, 8]), "a", "outside"),
    "before": (one([1], [-4, 0]), "a", "outside"),
    "backward": (one([1], [4, 0]), "a", "outside"),
    "too short": (one([2], [0, 4]), "a", "takes 8 bytes"),
    "hole": (one([1], [4, 8], data=F4 * 2), "a", "hole"),
    "overlap": (
        st_file({"a": entry([2], [0, 8]), "b": entry([1], [4, 8])}, F4 * 2),
        "b",
        "overlap",
    ),
    "more data": (one([1], [0, 4], data=F4 * 2), "", "the header names 4"),
    "path": (st_file({"../a": entry([1], [0, 4])}, F4), "../a", "not a name"),
    "root": (st_file({"/etc/a": entry([1], [0, 4])}, F4), "/etc/a", "not a name"),
    "drive": (st_file({"c:\\a": entry([1], [0, 4])}, F4), "a", "not a name"),
    "dunder": (
        st_file({"a.__class__": entry([1], [0, 4])}, F4),
        "a.__class__",
        "not a name",
    ),
    "NUL": (st_file({"a\0": entry([1], [0, 4])}, F4), "a", "not a name"),
    "surrogate": (st_file({"a\ud800": entry([1], [0, 4])}, F4), "a", "not a name"),
    "no name": (st_file({"": entry([1], [0, 4])}, F4), "''", "not a name"),
    "long name": (st_file({"a" * 2**20: entry([1], [0, 4])}, F4), "aaa", "not a name"),
    "metadata of numbers": (st_file({"__metadata__": {"a": 1}}), "", "metadata"),
    "metadata list": (st_file({"__metadata__": []}), "", "metadata"),
    "truth": (one([1], [0, 1], "BOOL", b"\2"), "a", "truth"),
    "millions of lists": (
        lambda: st_file(b"{" + b"[]," * (2_000_000 // PART)),
        "",
        "too many",
    ),
    "too many arrays": (many_entries, "", f"more than {65536 // PART} arrays"),
}


# -- .npz --------------------------------------------------------------------------


def npy(array: Any, header: str | None = None) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    raw = buffer.getvalue()
    if header is None:
        return raw
    body = raw[10 + int.from_bytes(raw[8:10], "little") :]
    return raw[:8] + len(header).to_bytes(2, "little") + header.encode() + body


def head(descr: str = "'<f8'", order: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def npz(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # a name given twice is on purpose
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def written(header: str) -> bytes:
    return npz(("a.npy", npy(TWO, header)))


def patched(raw: bytes, at: bytes, offset: int, new: bytes) -> bytes:
    """The file with some bytes changed, counted from the last place of a signature."""
    found = bytearray(raw)
    where = raw.rindex(at) + offset
    found[where : where + len(new)] = new
    return bytes(found)


GOOD_NPZ = npz(("a.npy", npy(TWO)))
DEFLATED = npz(("a.npy", npy(TWO)), method=zipfile.ZIP_DEFLATED)
METADATA = "__metadata__.npy"


def told(text: bytes) -> bytes:
    return npz((METADATA, npy(np.frombuffer(text, "u1"))), ("a.npy", npy(TWO)))


NPZ: Rows = {
    "empty": (b"", "", "empty"),
    "no zip": (b"x" * 100, "", "not a zip"),
    "no directory": (GOOD_NPZ[:-30], "", "not a zip"),
    "objects": (npz(("a.npy", npy(np.array([{}])))), "a.npy", "refused"),
    "records": (npz(("a.npy", npy(np.zeros(1, "i4,f4")))), "a.npy", "refused"),
    "text": (npz(("a.npy", npy(np.array(["a"])))), "a.npy", "refused"),
    "dates": (npz(("a.npy", npy(np.zeros(1, "M8[s]")))), "a.npy", "refused"),
    "odd width": (written(head("'<f3'")), "a.npy", "not a dtype"),
    "wide": (written(head("'<f16'")), "a.npy", "not supported"),
    "expression": (written(head("__import__('os')")), "a.npy", "refused"),
    "no dictionary": (written("[]"), "a.npy", "not a dictionary"),
    "incomplete": (written("{}"), "a.npy", "not complete"),
    "twice": (npz(("a.npy", npy(TWO)), ("a.npy", npy(TWO))), "a", "twice"),
    "path": (npz(("../a.npy", npy(TWO))), "../a", "not a name"),
    "root": (npz(("/a.npy", npy(TWO))), "/a", "not a name"),
    "dunder": (npz(("__class__.npy", npy(TWO))), "__class__", "not a name"),
    "other file": (npz(("a.txt", b"hello")), "a.txt", "not an array"),
    "no array": (npz(("a.npy", b"hello")), "a.npy", "not an array"),
    "ends in header": (npz(("a.npy", b"\x93NUMPY\1\0\x99")), "a.npy", ""),
    "shape": (written(head(shape="(3,)")), "a.npy", "does not take"),
    "huge": (written(head(shape=f"({2**62},)")), "a.npy", "too large"),
    "negative": (written(head(shape="(-2,)")), "a.npy", "cannot be read"),
    "digits": (written(head(shape="(" + "9" * 5000 + ",)")), "a.npy", "digits"),
    "order": (written(head(order="(1,)")), "a.npy", "not complete"),
    "long header": (written(head() + " " * 20000), "a.npy", "too long"),
    "bzip2": (
        npz(("a.npy", npy(TWO)), method=zipfile.ZIP_BZIP2),
        "a.npy",
        "neither stored",
    ),
    "encrypted": (patched(GOOD_NPZ, b"PK\1\2", 8, b"\1"), "a.npy", "encrypted"),
    "bomb": (
        patched(DEFLATED, b"PK\1\2", 24, (2**31).to_bytes(4, "little")),
        "a.npy",
        "do not fit the file",
    ),
    "smaller than it is": (
        patched(DEFLATED, b"PK\1\2", 24, (100).to_bytes(4, "little")),
        "a.npy",
        "CRC",
    ),
    "checksum": (patched(GOOD_NPZ, b"PK\1\2", 16, b"\0\0\0\0"), "a", "CRC"),
    "member elsewhere": (
        patched(GOOD_NPZ, b"PK\1\2", 42, b"\x09\0\0\0"),
        "a.npy",
        "header",
    ),
    "two names for one member": (
        patched(npz(("a.npy", npy(TWO)), ("b.npy", npy(TWO))), b"PK\1\2", 42, F4),
        "b.npy",
        "differ",
    ),
    "directory of gigabytes": (
        patched(GOOD_NPZ, b"PK\5\6", 12, b"\xff\xff\xff\x7f"),
        "",
        "directory of",
    ),
    "a hundred thousand members": (
        lambda: npz(*[(f"{k}.npy", b"") for k in range(100_000)]),
        "",
        "directory of",
    ),
    "truth": (npz(("a.npy", npy(np.zeros(1, "?"))[:-1] + b"\2")), "a", "truth"),
    "metadata of floats": (npz((METADATA, npy(TWO))), "__metadata__", "not text"),
    "metadata list": (told(b"[]"), "__metadata__", "cannot be read"),
    "metadata of a dtype": (
        told(b'{"metadata": {}, "bfloat16": ["a"]}'),
        "__metadata__",
        "cannot be read",
    ),
    "metadata bomb": (
        lambda: npz(
            (METADATA, npy(np.frombuffer(b"[]," * (2_000_000 // PART), "u1"))),
            method=zipfile.ZIP_DEFLATED,
        ),
        "__metadata__",
        "cannot be read",
    ),
    "long metadata": (
        lambda: npz(
            (METADATA, npy(np.zeros(1 << 25, "u1"))), method=zipfile.ZIP_DEFLATED
        ),
        "__metadata__",
        "bytes of text",
    ),
    "text that is none": (
        npz(("special:model.yml.npy", npy(np.frombuffer(b"\xff\xfe", "i1")))),
        "special:model.yml",
        "not UTF-8",
    ),
}


# -- Marian's .bin -----------------------------------------------------------------


def marian(
    *heads: tuple[int, int, int, int],
    names: bytes = b"a\0",
    shapes: bytes = struct.pack("<i", 2),
    count: int | None = None,
    version: int = 1,
    gap: int | None = None,
    data: bytes = b"\0" * 256,
) -> bytes:
    """A file of any headers; by default its rest fits one array "a" of two numbers."""
    raw = struct.pack("<2Q", version, len(heads) if count is None else count)
    raw += b"".join(struct.pack("<4Q", *numbers) for numbers in heads) + names + shapes
    fill = 256 - (len(raw) + 8) % 256
    return raw + struct.pack("<Q", fill if gap is None else gap) + b"\0" * fill + data


FLOAT2 = (2, 0x404, 1, 256)
MARIAN: Rows = {
    "empty": (b"", "", "ends within the version"),
    "only a version": (b"\1" + b"\0" * 7, "", "ends within the number"),
    "another version": (marian(FLOAT2, version=3), "", "not version 1 or 2"),
    "encrypted": (marian(FLOAT2, version=2), "", "encrypted"),
    "more arrays than bytes": (marian(FLOAT2, count=2**40), "", "are not in"),
    "count overflows": (marian(FLOAT2, count=2**64 - 1), "", "are not in"),
    "headers cut off": (marian(FLOAT2)[:40], "", "ends within the headers"),
    "long name": (marian((2**40, 0x404, 1, 256)), "", "longer than the file"),
    "name over the limit": (
        marian((6000, 0x404, 1, 256), names=b"a" * 5999 + b"\0"),
        "array 1",
        "refused",
    ),
    "no name": (marian((0, 0x404, 1, 256), names=b""), "array 1", "refused"),
    "name of a NUL": (marian((1, 0x404, 1, 256), names=b"\0"), "array 1", "refused"),
    "name without end": (marian(FLOAT2, names=b"ab"), "array 1", "does not end"),
    "name with NUL": (
        marian((4, 0x404, 1, 256), names=b"a\0b\0"),
        "array 1",
        "does not end",
    ),
    "name not UTF-8": (marian(FLOAT2, names=b"\xff\0"), "array 1", "not UTF-8"),
    "path": (marian((5, 0x404, 1, 256), names=b"../a\0"), "../a", "not a name"),
    "root": (marian((3, 0x404, 1, 256), names=b"/a\0"), "/a", "not a name"),
    "dunder": (
        marian((10, 0x404, 1, 256), names=b"__class_\0\0"[:9] + b"\0"),
        "array 1",
        "does not end",
    ),
    "unknown type": (marian((2, 0x403, 1, 256)), "a", "0x403 is not known"),
    "no type": (marian((2, 0, 1, 256)), "a", "0x0 is not known"),
    "huge type": (marian((2, 2**63, 1, 256)), "a", "is not known"),
    "packed type": (marian((2, 0x10101, 1, 256)), "a", "packed for one kind"),
    "many dimensions": (marian((2, 0x404, 33, 256)), "a", "too many"),
    "dimensions overflow": (marian((2, 0x404, 2**62, 256)), "a", "too many"),
    "shape cut off": (
        marian(FLOAT2, shapes=b"", data=b"")[:52],
        "a",
        "ends within the shape",
    ),
    "negative extent": (
        marian(FLOAT2, shapes=struct.pack("<i", -2)),
        "a",
        "not a shape",
    ),
    "large extent": (
        marian(FLOAT2, shapes=struct.pack("<i", 2**31 - 1)),
        "a",
        "takes 8589934588 bytes",
    ),
    "product overflows": (
        marian((2, 0x404, 8, 256), shapes=struct.pack("<8i", *[2**30] * 8)),
        "a",
        "too large",
    ),
    "data too short": (marian((2, 0x404, 1, 0)), "a", "takes 8 bytes"),
    "data too long": (marian((2, 0x404, 1, 512), data=b"\0" * 512), "a", "takes 8"),
    "length overflows": (marian((2, 0x404, 1, 2**64 - 8)), "a", "takes 8 bytes"),
    "data cut off": (marian(FLOAT2, data=b"\0" * 255), "a", "outside the file"),
    "more data": (marian(FLOAT2, data=b"\0" * 257), "", "the file has more"),
    "gap beyond the end": (marian(FLOAT2, gap=10_000), "", "the data begin at"),
    "gap overflows": (marian(FLOAT2, gap=2**64 - 1), "", "the data begin at"),
    "gap too large": (marian(FLOAT2, gap=400), "a", "outside the file"),
    "gap too small": (marian(FLOAT2, gap=0), "", "the file has more"),
    "twice": (
        marian(
            FLOAT2,
            FLOAT2,
            names=b"a\0a\0",
            shapes=struct.pack("<2i", 2, 2),
            data=b"\0" * 512,
        ),
        "a",
        "twice",
    ),
    "second outside": (
        marian(FLOAT2, FLOAT2, names=b"a\0b\0", shapes=struct.pack("<2i", 2, 2)),
        "b",
        "outside the file",
    ),
    "text of floats": (
        marian((10, 0x404, 1, 256), names=b"special:x\0"),
        "special:x",
        "not text",
    ),
    "text not UTF-8": (
        marian((10, 0x101, 1, 256), names=b"special:x\0", data=b"\xff" * 256),
        "special:x",
        "not UTF-8",
    ),
    "a hundred thousand headers": (
        lambda: marian(count=100_000, names=b"", data=bytes(32 * 100_000)),
        "",
        "are not in",
    ),
}


# -- DyNet's text ------------------------------------------------------------------


def dynet(
    header: bytes = b"#Parameter# /a {2} 33 ZERO_GRAD",
    numbers: bytes = b"+1.00000000e+00 +2.00000000e+00 ",
) -> bytes:
    return header + b"\n" + numbers + b"\n"


def header(name: bytes = b"/a", dim: bytes = b"{2}", size: bytes = b"33") -> bytes:
    return dynet(b"#Parameter# " + name + b" " + dim + b" " + size + b" ZERO_GRAD")


DYNET: Rows = {
    "empty": (b"", "", "no parameter"),
    "no header": (dynet(b"hello"), "parameter 1", "no header"),
    "another kind": (
        dynet(b"#Pickle# /a {2} 33 ZERO_GRAD"),
        "parameter 1",
        "no header",
    ),
    "no name": (header(b""), "parameter 1", "no header"),
    "name not UTF-8": (header(b"/\xff"), "parameter 1", "not UTF-8"),
    "path": (header(b"/../a"), "../a", "not a name"),
    "dunder": (header(b"/__class__"), "__class__", "not a name"),
    "two slashes": (header(b"//a"), "/a", "not a name"),
    "NUL": (header(b"/a\0"), "a", "not a name"),
    "negative extent": (header(dim=b"{-2}"), "parameter 1", "no header"),
    "batch": (header(dim=b"{2X3}"), "parameter 1", "no header"),
    "empty extent": (header(dim=b"{2,}"), "a", "not a shape"),
    "eight dimensions": (header(dim=b"{1,1,1,1,1,1,1,2}"), "a", "not a shape"),
    "huge extent": (header(dim=b"{" + b"9" * 100 + b"}"), "a", "not a shape"),
    "product overflows": (
        header(dim=b"{" + b",".join([b"9" * 15] * 7) + b"}"),
        "a",
        "too large",
    ),
    "wrong size": (header(size=b"34"), "a", "34 bytes are declared"),
    "size overflows": (header(size=b"9" * 30), "parameter 1", "no header"),
    "larger than the file": (
        header(dim=b"{1000000000}", size=b"16000000001"),
        "a",
        "too short",
    ),
    "no numbers": (b"#Parameter# /a {2} 33 ZERO_GRAD\n", "a", "ends within"),
    "cut off": (dynet()[:-5], "a", "ends within"),
    "too few": (dynet(numbers=b"+1.00000000e+00 "), "a", "there are 1 numbers, not 2"),
    "too many": (dynet(numbers=b"1 " * 3), "a", "more than 2"),
    "line too long": (dynet(numbers=b"1 " * 30), "a", "longer than 33"),
    "no number": (dynet(numbers=b"+1.00000000e+00 __import__"), "a", "not all"),
    "hexadecimal": (dynet(numbers=b"0x1p3 0x1p3"), "a", "not all"),
    "underscores": (dynet(numbers=b"1_0 1_0"), "a", "not all"),
    "other alphabet": (dynet(numbers="\u0661 \u0662".encode()), "a", "not all"),
    "one endless number": (
        lambda: dynet(b"#Parameter# /a {100000} 1600001 ZERO_GRAD", b"1" * 1_000_000),
        "a",
        "not all",
    ),
    "no gradient": (
        dynet(b"#Parameter# /a {2} 66 FULL_GRAD"),
        "a",
        "ends within",
    ),
    "another word": (
        dynet(b"#Parameter# /a {2} 33 SOME_GRAD"),
        "parameter 1",
        "no header",
    ),
    "twice": (dynet() + dynet(), "a", "twice"),
    "twice by slash": (dynet() + header(b"a"), "a", "twice"),
    "table without rows": (
        dynet(b"#LookupParameter# /a {} 17 ZERO_GRAD", b"+1.00000000e+00 "),
        "a",
        "has rows",
    ),
    "header without end": (
        b"#Parameter# /" + b"a" * 10_000,
        "parameter 1",
        "no header",
    ),
    "second is none": (dynet() + b"rest", "parameter 2", "no header"),
    "a hundred thousand parameters": (
        lambda: b"".join(
            b"#Parameter# /%d {0} 1 ZERO_GRAD\n\n" % k for k in range(100_000 // PART)
        ),
        "",
        f"more than {65536 // PART}",
    ),
}


# -- graphs ------------------------------------------------------------------------


def graph(old: str = "", new: str = "", key: str = "graph") -> Callable[[], bytes]:
    """A computation's file with a part of its text replaced."""

    def made() -> bytes:
        x, w = td.placeholder((2,), name="x"), td.param("w", (2,))
        file = io.BytesIO()
        td.save(file, td.computation([x * w], x), format=".npz")
        arrays, facts = load_arrays(file.getvalue())
        assert old in facts[key]
        facts[key] = facts[key].replace(old, new, 1)
        file = io.BytesIO()
        td.save(file, arrays, metadata=facts, format=".npz")
        return file.getvalue()

    return made


PRODUCT = "Multiply() %0 %1 : float32[2]"
GRAPH: Rows = {
    "another version": (graph("graph 1", "graph 2"), "graph", "line 1 is not"),
    "unknown op": (graph("Multiply", "Import"), "graph", "no op is named 'Import'"),
    "code": (graph("Multiply()", "__import__('os')"), "graph", "no op is named"),
    "attribute": (graph("Multiply()", "Multiply(f=1)"), "graph", "no attribute 'f'"),
    "wrong attribute": (
        graph(PRODUCT, "Sum(axes='axes', keepdims=3) %0 : float32[]"),
        "graph",
        "line 5",
    ),
    "leaf as an op": (
        graph(PRODUCT, "Version(variable=$0) : float32[2]"),
        "graph",
        "no op",
    ),
    "cycle": (graph("%0 %1 :", "%2 %1 :"), "graph", "later than its reader"),
    "arity": (graph("%0 %1 :", "%0 :"), "graph", "takes 2 operands"),
    "type": (graph(PRODUCT, PRODUCT[:-2] + "3]"), "graph", "not float32[3]"),
    "huge type": (
        graph("argument : float32[2]", f"argument : float32[{2**62}]"),
        "graph",
        "too large",
    ),
    "missing node": (graph("%2 = ", "%9 = "), "graph", "node %2 is missing"),
    "no return": (graph("return %2", ""), "graph", "ends within"),
    "outside a body": (graph("body 0", "%0 body 0"), "graph", "belongs to no body"),
    "constant cut off": (
        graph("%0 %1 :", "%0 %1 : float32[2]\n%3 = constant 0x00 :"),
        "graph",
        "does not take 1 bytes",
    ),
    "constant not there": (
        graph("%0 %1 :", "%0 %1 : float32[2]\n%3 = constant 'gone' :"),
        "graph",
        "no array is named",
    ),
    "nested attribute": (
        graph("Multiply()", "Reshape(shape=" + "(" * 60 + ")" * 60 + ")"),
        "graph",
        "nested too deeply",
    ),
    "body not there": (
        graph("Multiply()", "Call(body=@7, again=False)"),
        "graph",
        "there is no @7",
    ),
    "long line": (graph("Multiply()", "Sum(" + " " * 70_000), "graph", "longer than"),
    "signature of another kind": (graph("{", "[{", "graph.signature"), "", "cannot be"),
    "variable not there": (
        graph('"placeholders": [0]', '"placeholders": [9]', "graph.signature"),
        "",
        "not there",
    ),
    "variable of another shape": (
        graph('"shape": [2]', '"shape": [1099511627776]', "graph.signature"),
        "graph",
        "",
    ),
    "array not there": (
        graph('"array": "w"', '"array": "../w"', "graph.signature"),
        "variable 1",
        "no array is named",
    ),
}

HOSTILE: dict[str, Rows] = {
    ".safetensors": SAFETENSORS | hostile_axes(".safetensors"),
    ".npz": NPZ | hostile_axes(".npz"),
    ".bin": MARIAN | hostile_axes(".bin"),
    ".serrano": {**SERRANO},
    ".pt": {**TORCH},
    "events": EVENTS,
    "nervana": NERVANA,
    ".dynet": DYNET,
    "graph": GRAPH,
}
# What lists, entries, arrays or fields are too many of.
MANY = {
    (".safetensors", "millions of lists"),
    (".safetensors", "too many arrays"),
    (".npz", "metadata bomb"),
    (".dynet", "a hundred thousand parameters"),
    ("events", "millions of fields"),
    ("nervana", "endless fields"),
    (".pt", "millions of codes"),
    (".pt", "many numbers"),
    *((kind, "axes are too many lists") for kind in (".safetensors", ".npz", ".bin")),
}
