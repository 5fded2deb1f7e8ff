"""Computations as files of Nervana Graph."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType, bool_, float32
from treadle.base.errors import ArgumentError, ModelFileError
from treadle.graph.body import Body
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Placeholder, Variable
from treadle.io.files import PathLike, guarded, write_atomically
from treadle.io.nervana.ops import BINARY, REDUCTIONS, UNARY
from treadle.io.nervana.schema import DATA, DTYPES, GRAPH, HANDLE, OTHER
from treadle.io.protobuf import encode
from treadle.ops.call import smaller, without_calls
from treadle.ops.families import is_composed
from treadle.runtime.computation import Computation

Label = str | None  # of a dimension; None: of length 1, and not there in the file


def save_nervana(path: PathLike, what: Computation) -> None:
    """Write a computation as Nervana Graph's `serialize_graph` does, whole or not.

    Ops are written with their axes, by the names that dimensions have or "axis_0", ...;
    the outputs are the ops asked for, Variables begin with their values. What has no op
    there is told by name and line. Checked against the published ops.proto; Nervana
    Graph itself does not run on today's Python. Raises ModelFileError.

    >>> import tempfile, treadle as td
    >>> net, x = td.nn.Linear(3, 2), td.placeholder((4, 3), name="x")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.io.save_nervana(f"{folder}/g.pb", td.computation({"y": net(x)}, x))
    ...     f = td.io.load_nervana(f"{folder}/g.pb")
    >>> bool((abs(f(x=td.ones((4, 3)))["y"] - net(td.ones((4, 3)))) < 1e-6).all())
    True
    """
    if not isinstance(what, Computation):
        raise ArgumentError(
            f"takes a computation, not {type(what).__name__}",
            hint="td.io.save_nervana(path, td.computation(y, x))",
        ).located("save_nervana")
    with guarded(path, ModelFileError):
        if what.draws or any(v is not None for v in what.changed):
            raise ValueError("it draws or assigns, which these files do not say")
        raw = _Writer().written(what)
        write_atomically(path, raw)


class _Made:
    """An op that was written: its number, and the labels of the tensor's dimensions."""

    def __init__(
        self, number: int, labels: Sequence[Label], shape: Sequence[int], dtype: DType
    ) -> None:
        self.number, self.labels, self.dtype = number, tuple(labels), dtype
        self.shape = tuple(shape)

    @property
    def axes(self) -> dict[str, int]:
        """The axes in the file, with their lengths."""
        pairs = zip(self.labels, self.shape, strict=True)
        return {label: n for label, n in pairs if label is not None}


class _Writer:
    def __init__(self) -> None:
        self.ops: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.unknown: dict[str, str] = {}
        self.labels = 0

    # -- messages ------------------------------------------------------------------

    def uuid(self, text: str) -> dict[str, bytes]:
        return {"uuid": hashlib.sha256(text.encode()).digest()[:16]}

    def fresh(self, taken: Any = ()) -> str:
        while True:
            label = f"axis_{self.labels}"
            self.labels += 1
            if label not in taken:
                return label

    def axes(self, axes: Mapping[str, int]) -> dict[str, Any]:
        listed = [
            {"uuid": self.uuid(f"axis {name}"), "name": name, "length": n}
            for name, n in axes.items()
        ]
        return {"axes": {"uuid": self.uuid(f"axes {list(axes)}"), "axes": listed}}

    def edge(self, begin: int, end: int, kind: int, attribute: str = "") -> None:
        named = {"_ngraph_attribute": {"scalar": {"string_val": attribute}}}
        self.edges.append(
            {
                "uuid": self.uuid(f"edge {len(self.edges)}"),
                "from_uuid": self.uuid(f"op {begin}"),
                "to_uuid": self.uuid(f"op {end}"),
                **({"attrs": named} if attribute else {}),
                "edge_type": kind,
            }
        )

    def add(
        self,
        kind: str,
        args: Sequence[_Made],
        labels: Sequence[Label],
        shape: Sequence[int],
        dtype: DType,
        attrs: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> _Made:
        """Write an op with its edges; bools are numbers there."""
        number = len(self.ops)
        kept = float32 if dtype == bool_ else dtype
        if kept not in DTYPES:
            raise ValueError(f"Nervana Graph has no {dtype.name}")
        written = _Made(number, labels, shape, kept)
        self.ops.append(
            {
                "uuid": self.uuid(f"op {number}"),
                "name": name or f"{kind}_{number}",
                "op_type": kind,
                "dtype": DTYPES.index(kept),
                "attrs": {"_axes": self.axes(written.axes), **(attrs or {})},
            }
        )
        for arg in args:
            self.edge(arg.number, number, DATA)
        return written

    def array(self, value: Array) -> dict[str, Any]:
        kept = value.astype(np.float32) if value.dtype == np.bool_ else value
        if kept.dtype not in DTYPES:
            raise ValueError(f"Nervana Graph has no {value.dtype}")
        info = {"dtype": DTYPES.index(kept.dtype), "shape": kept.shape}
        return {"tensor": {"info": info, "data": np.ascontiguousarray(kept).tobytes()}}

    def leaf(self, name: str, value: Array | None, x: Any, **flags: bool) -> _Made:
        """Storage, and the op that reads it."""
        axes = x.axes or (None,) * len(x.shape)
        labels = [label or self.fresh(axes) for label in axes]
        attrs = {f"_is_{key}": {"scalar": {"bool_val": v}} for key, v in flags.items()}
        if value is not None:
            attrs["initial_value"] = self.array(value)
            if flags.get("constant"):
                attrs["_const"] = attrs["initial_value"]
        kind = x.shape, x.dtype
        store = self.add("AssignableTensorOp", [], labels, *kind, attrs, name)
        read = self.add("TensorValueOp", [], labels, *kind)
        self.edge(read.number, store.number, OTHER, "_tensor")
        return read

    # -- graphs --------------------------------------------------------------------

    def written(self, what: Computation) -> bytes:
        """The bytes of the file."""
        arguments = [self._variable(v, what) for v in what.variables]
        outputs = self.body(what.body, arguments)
        if self.unknown:
            missing = [f"{op} ({line})" for op, line in sorted(self.unknown.items())]
            raise ValueError(f"Nervana Graph has no op for: {'; '.join(missing)}")
        for name, output in zip(_output_names(what), outputs, strict=True):
            self.ops[output.number]["attrs"][HANDLE] = {"scalar": {"bool_val": True}}
            self.ops[output.number]["name"] = name
        return encode(GRAPH, "GraphDef", {"edges": self.edges, "ops": self.ops})

    def _variable(self, v: Variable, what: Computation) -> _Made:
        if isinstance(v, Placeholder):
            if all(v is not p for p in what.placeholders):
                raise ValueError(f"it reads {v.name!r}, which is no input")
            return self.leaf(
                v.name, None, v, placeholder=True, input=True, persistent=True
            )
        flags = {"persistent": True, "trainable": v.trainable}
        return self.leaf(v.name, v.numpy(), v, **flags)

    def body(self, body: Body, arguments: Sequence[_Made]) -> list[_Made]:
        plain = without_calls(body)
        known = {x.serial: g for x, g in zip(plain.arguments, arguments, strict=True)}
        for node in plain.nodes:
            if node.serial not in known:
                known[node.serial] = self._node(node, known)
        return [self._copied(known[y.serial]) for y in plain.outputs]

    def _copied(self, op: _Made) -> _Made:
        """An op of its own for what is both an input and an output."""
        if self.ops[op.number]["op_type"] != "TensorValueOp":
            return op
        return self.add("ContiguousOp", [op], op.labels, op.shape, op.dtype)

    def _node(self, node: Tensor, known: Mapping[int, _Made]) -> _Made:
        op, shape, dtype = node.op, node.shape, node.dtype
        if node.stored is not None and not node.inputs:
            assert node.array is not None
            return self.leaf("", node.array, node, constant=True, persistent=True)
        operands = [known[x.serial] for x in node.inputs]
        if op.name in UNARY:
            return self.add(UNARY[op.name], operands, operands[0].labels, shape, dtype)
        if op.name in BINARY:
            return self._binary(BINARY[op.name], operands, shape, dtype)
        write = getattr(self, f"_{op.name.lower()}", None)
        if op.name in REDUCTIONS:
            return self._reduction(node, operands[0])
        if write is not None:
            return write(node, *operands)
        if is_composed(op):
            body, arguments = smaller(node)
            return self.body(body, [known[x.serial] for x in arguments])[0]
        self.unknown.setdefault(op.name, node.line or "")
        number = operands[0].number if operands else 0
        return _Made(number, [None] * len(shape), shape, dtype)

    # -- ops -----------------------------------------------------------------------

    def cast(self, x: _Made, labels: Sequence[Label]) -> _Made:
        """The same under other labels, for lengths that are alike."""
        if tuple(labels) == x.labels:
            return x
        return self.add("AxesCastOp", [x], labels, x.shape, x.dtype)

    def spread(self, x: _Made, labels: Sequence[Label], shape: Sequence[int]) -> _Made:
        if x.labels == tuple(labels):
            return x
        return self.add("BroadcastOp", [x], labels, shape, x.dtype)

    def without(self, x: _Made, gone: Sequence[int]) -> _Made:
        """The same without the axes of some dimensions, which have length 1."""
        gone = [k for k in gone if x.labels[k] is not None]
        if not gone:
            return x
        places = [k for k in range(len(x.labels)) if x.labels[k] is not None]
        key: list[Any] = [
            {"int_val": 0} if k in gone else {"slice_val": {}} for k in places
        ]
        labels = [None if k in gone else label for k, label in enumerate(x.labels)]
        sliced = {"slices": {"repeated_scalar": {"val": key}}}
        return self.add("TensorSliceOp", [x], labels, x.shape, x.dtype, sliced)

    def _binary(
        self, kind: str, operands: Sequence[_Made], shape: Sequence[int], dtype: DType
    ) -> _Made:
        """Both operands with the labels of the result: of the first that has each."""
        rank, ready = len(shape), []
        for x in operands:
            lead = rank - len(x.labels)
            short = [k for k, n in enumerate(x.shape) if n != shape[lead + k]]
            x = self.without(x, short)
            wide = [*[None] * lead, *x.labels]
            ready.append(_Made(x.number, wide, [*[1] * lead, *x.shape], x.dtype))
        labels: list[Label] = [None] * rank
        for x in ready:
            for k, label in enumerate(x.labels):
                if labels[k] is None and label is not None:
                    taken = label in labels
                    labels[k] = self.fresh(labels) if taken else label
        args = []
        for x in ready:
            named = [n if old is not None else None
                     for old, n in zip(x.labels, labels, strict=True)]  # fmt: skip
            args.append(self.spread(self.cast(x, named), labels, shape))
        return self.add(kind, args, labels, shape, dtype)

    def _reduction(self, node: Tensor, x: _Made) -> _Made:
        op: Any = node.op
        gone = {x.labels[k]: x.shape[k] for k in op.axes if x.labels[k] is not None}
        places = range(len(x.labels))
        if op.keepdims:
            labels = [None if k in op.axes else x.labels[k] for k in places]
        else:
            labels = [x.labels[k] for k in places if k not in op.axes]
        axes = {"reduction_axes": self.axes(gone)}
        name = REDUCTIONS[op.name]
        return self.add(name, [x], labels, node.shape, node.dtype, axes)

    def _contract(self, node: Tensor, x: _Made, y: _Made) -> _Made:
        op: Any = node.op
        left, right = op.spec.split("->")[0].split(",")
        out = op.spec.split("->")[1]
        if any(c in right and c in out for c in left):
            self.unknown.setdefault("Contract over a batch", node.line or "")
            return _Made(x.number, [None] * len(out), node.shape, node.dtype)
        by_letter: dict[str, Label] = dict(zip(left, x.labels, strict=True))
        named: list[Label] = []
        for c, label in zip(right, y.labels, strict=True):
            shared = by_letter.get(c, label)
            if c in by_letter and (shared is None) != (label is None):
                x = self.without(x, [left.index(c)])
                y = self.without(y, [right.index(c)])
                shared = None
            elif (
                c not in by_letter
                and shared is not None
                and shared in by_letter.values()
            ):
                shared = self.fresh([*by_letter.values(), *named])
            named.append(shared)
        y = self.cast(y, [n if y.labels[k] is not None else None
                          for k, n in enumerate(named)])  # fmt: skip
        by_letter = dict(zip(left, x.labels, strict=True))
        by_letter |= {c: n for c, n in zip(right, y.labels, strict=True) if c in out}
        extent = dict(zip(out, node.shape, strict=True))
        first = [c for c in left if c in out] + [c for c in right if c in out]
        product = self.add(
            "DotOp", [x, y], [by_letter[c] for c in first],
            [extent[c] for c in first], node.dtype,
        )  # fmt: skip
        return self._permuted(product, [first.index(c) for c in out])

    def _permuted(self, x: _Made, order: Sequence[int]) -> _Made:
        labels, shape = [x.labels[k] for k in order], [x.shape[k] for k in order]
        if list(order) == list(range(len(order))):
            return x
        if [n for n in labels if n] == [n for n in x.labels if n]:
            return _Made(x.number, labels, shape, x.dtype)
        return self.add("ReorderAxes", [x], labels, shape, x.dtype)

    def _permutedims(self, node: Tensor, x: _Made) -> _Made:
        op: Any = node.op
        return self._permuted(x, op.order)

    def _broadcastto(self, node: Tensor, x: _Made) -> _Made:
        lead = len(node.shape) - len(x.labels)
        short = [k for k, n in enumerate(x.shape) if n != node.shape[lead + k]]
        x = self.without(x, short)
        labels: list[Label] = [*[None] * lead, *x.labels]
        for k, label in enumerate(labels):
            if label is None and node.shape[k] != 1:
                labels[k] = self.fresh(labels)
        wide = _Made(x.number, [*[None] * lead, *x.labels], node.shape, x.dtype)
        return self.spread(wide, labels, node.shape)

    def _reshape(self, node: Tensor, x: _Made) -> _Made:
        """Dimensions of length 1 that come and go; others have no op there."""
        pairs = zip(x.shape, x.labels, strict=True)
        solid = [(n, label) for n, label in pairs if n != 1]
        if [n for n, _ in solid] != [n for n in node.shape if n != 1]:
            self.unknown.setdefault("Reshape", node.line or "")
            return _Made(x.number, [None] * len(node.shape), node.shape, node.dtype)
        x = self.without(x, [k for k, n in enumerate(x.shape) if n == 1])
        rest = iter([label for _, label in solid])
        labels = [None if n == 1 else next(rest) for n in node.shape]
        return _Made(x.number, labels, node.shape, x.dtype)

    def _slice(self, node: Tensor, x: _Made) -> _Made:
        """Parts of dimensions, which are axes of their own."""
        op: Any = node.op
        labels, key = list(x.labels), []
        for k, n in enumerate(x.shape):
            if x.labels[k] is None:
                continue
            start, stop, step = op.starts[k], op.stops[k], op.steps[k]
            part = {"start": {"value": start}, "step": {"value": step}}
            if stop >= 0:  # else through the first element
                part["stop"] = {"value": stop}
            if (start, stop, step) != (0, n, 1):
                labels[k] = self.fresh(labels)
            key.append({"slice_val": part})
        if any(abs(step) != 1 for step in op.steps):
            self.unknown.setdefault("Slice with a step", node.line or "")
        sliced = {"slices": {"repeated_scalar": {"val": key}}}
        return self.add("TensorSliceOp", [x], labels, node.shape, x.dtype, sliced)

    def _cast(self, node: Tensor, x: _Made) -> _Made:
        return self.add("ContiguousOp", [x], x.labels, x.shape, node.dtype)


def _output_names(what: Computation) -> list[str]:
    structure = what.structure
    if isinstance(structure, tuple) and structure[0] is dict:
        keys = [str(key) for key in structure[1]]
        if len(keys) == what.count:
            return keys
    return [f"output_{k}" for k in range(what.count)]
