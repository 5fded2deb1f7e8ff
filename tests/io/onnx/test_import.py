"""Nodes of ONNX by table: what Treadle makes of each is what onnx's evaluator does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.io.onnx.models import by_onnx, by_treadle, same, save
from treadle.io.onnx.load import IMPORTS
from treadle.io.onnx.table import LAST

RNG = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def pos(*shape: int) -> Any:
    return RNG.uniform(0.2, 0.9, shape).astype(np.float32)


def i(*values: Any) -> Any:
    return np.array(values, np.int64)


def b(*shape: int) -> Any:
    return RNG.uniform(size=shape) > 0.5


X, IMAGE, WIDE = f(2, 3), f(2, 4, 7, 6), f(3, 2, 4)
ONE = np.array(1, np.int64)

# Op, inputs (None is one left out), attributes, the number of results, version.
Row = tuple[str, tuple[Any, ...], dict[str, Any], int, int]


def row(kind: str, *xs: Any, outputs: int = 1, opset: int = 20, **fields: Any) -> Row:
    return kind, xs, fields, outputs, opset


ROWS: list[Row] = [
    *[row(k, X) for k in ("Abs", "Asinh", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp")],
    *[row(k, X) for k in ("Floor", "HardSwish", "Identity", "IsNaN", "Mish", "Neg")],
    *[row(k, X) for k in ("Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin")],
    *[row(k, X) for k in ("Sinh", "Softplus", "Softsign", "Tan", "Tanh", "Elu")],
    *[row(k, X) for k in ("Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu")],
    *[row(k, X) for k in ("Celu", "Gelu", "Shape", "Size")],
    *[row(k, pos(2, 3)) for k in ("Acos", "Asin", "Atanh", "Log", "Sqrt")],
    row("Acosh", pos(2, 3) + 1),
    *[row(k, X, f(3)) for k in ("Add", "Sub", "Mul", "Div", "Equal", "Greater")],
    *[row(k, X, f(2, 1)) for k in ("Less", "LessOrEqual", "GreaterOrEqual", "PRelu")],
    *[row(k, X, f(3), f(1)) for k in ("Max", "Min", "Sum", "Mean")],
    *[row(k, b(2, 3), b(3)) for k in ("And", "Or", "Xor")],
    *[row(k, i(6, 5), i(3, 3)) for k in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")],
    row("BitwiseNot", i(6, -5)),
    row("Not", b(2, 3)),
    row("Div", i(7, -7, 7, -7), i(2, 2, -2, -2)),
    row("Pow", pos(2, 3), f(3)),
    row("Pow", X, i(2, 3, 2)),
    row("Mod", i(7, -7), i(3, 3)),
    row("Mod", X, f(3), fmod=1),
    row("Where", b(2, 3), X, f(3)),
    row("Clip", X, np.float32(-0.5), np.float32(1)),
    row("Clip", X, None, np.float32(1)),
    row("Clip", X, min=-1.0, max=0.5, opset=10),
    row("Gelu", X, approximate="tanh"),
    row("Elu", X, alpha=0.5),
    row("LeakyRelu", X, alpha=0.3),
    row("IsInf", np.array([np.inf, -np.inf, 1], np.float32), detect_negative=0),
    row("Cast", X, to=TensorProto.INT64),
    row("CastLike", X, i(1)),
    row("Dropout", X),
    row("MatMul", f(2, 3, 4), f(4, 5)),
    row("Gemm", f(4, 3), f(5, 4), f(5), transA=1, transB=1, alpha=0.5, beta=2.0),
    row("Gemm", f(3, 4), f(4, 5)),
    row("Einsum", f(2, 3), f(4, 3), equation="ij,kj->ik"),
    row("Softmax", WIDE),
    row("Softmax", WIDE, axis=1),
    row("Softmax", X, opset=11),
    row("LogSoftmax", WIDE, axis=0),
    row("CumSum", X, ONE, reverse=1),
    row("CumSum", X, np.array(0, np.int64), exclusive=1),
    row("ArgMax", X, axis=1, keepdims=0),
    row("ArgMin", i(2, 1, 1), select_last_index=1),
    row("TopK", X, i(2), outputs=2),
    row("TopK", X, i(1), outputs=2, axis=0, largest=0),
    *[row(k, WIDE, i(0, 2)) for k in ("ReduceSum", "ReduceMean", "ReduceMax")],
    *[row(k, WIDE, i(1), keepdims=0) for k in ("ReduceMin", "ReduceProd")],
    *[row(k, WIDE, i(-1)) for k in ("ReduceL1", "ReduceL2", "ReduceSumSquare")],
    *[row(k, pos(2, 3), i(1)) for k in ("ReduceLogSum", "ReduceLogSumExp")],
    row("ReduceSum", WIDE, keepdims=0),
    row("ReduceSum", WIDE, i(), noop_with_empty_axes=1),
    row("ReduceMean", WIDE, axes=[1], opset=13),
    row("Constant", value=numpy_helper.from_array(f(2))),
    row("Constant", value_floats=[1.0, 2.0]),
    row("Constant", value_int=3),
    row("ConstantOfShape", i(2, 3), value=numpy_helper.from_array(f(1))),
    row("Range", ONE, np.array(9, np.int64), np.array(3, np.int64)),
    row("EyeLike", X, k=1),
    row("Reshape", WIDE, i(0, -1)),
    row("Reshape", f(0, 3), i(3, 0), allowzero=1),
    row("Flatten", WIDE, axis=2),
    row("Flatten", WIDE, axis=0),
    row("Transpose", WIDE, perm=[1, 2, 0]),
    row("Transpose", WIDE),
    row("Squeeze", f(1, 2, 1), i(0)),
    row("Squeeze", f(1, 2, 1)),
    row("Squeeze", f(1, 2, 1), axes=[2], opset=11),
    row("Unsqueeze", X, i(0, -1)),
    row("Expand", f(3, 1), i(2, 1, 4)),
    row("Tile", X, i(2, 1)),
    row("Concat", X, f(2, 1), axis=-1),
    row("Split", f(7, 2), outputs=3, num_outputs=3),
    row("Split", f(2, 6), i(1, 5), outputs=2, axis=1),
    row("Split", f(2, 6), outputs=2, axis=1, split=[2, 4], opset=11),
    row("Slice", WIDE, i(0, -1), i(1, -99), i(1, 2), i(1, -2)),
    row("Slice", WIDE, i(1), i(1 << 62)),
    row("Slice", WIDE, starts=[1], ends=[3], axes=[2], opset=9),
    row("Gather", WIDE, i([0, -1], [1, 1]), axis=1),
    row("Gather", X, ONE),
    row("GatherElements", X, i([1, 0], [0, -1]), axis=1),
    row("GatherElements", X, i([1, 0, 1])),
    row("GatherND", WIDE, i([0, 1], [2, 0])),
    row("OneHot", i(1, -1, 2), np.array(3, np.int64), f(2), axis=0),
    row("Pad", X, i(1, 0, 0, 2), np.float32(3)),
    row("Pad", f(2, 4), i(0, 2, 0, 1), mode="reflect"),
    row("Pad", f(2, 4), i(0, 2, 0, 1), mode="edge"),
    row("Pad", X, i(1, 2), None, i(1)),
    row("Trilu", f(3, 4), ONE),
    row("Trilu", f(3, 4), upper=0),
    row("DepthToSpace", f(1, 8, 2, 3), blocksize=2),
    row("DepthToSpace", f(1, 8, 2, 3), blocksize=2, mode="CRD"),
    row("SpaceToDepth", f(1, 2, 4, 6), blocksize=2),
    row("SpaceToDepth", f(1, 2, 4, 6), blocksize=2, mode="CRD", opset=LAST),
    row("Conv", IMAGE, f(6, 4, 3, 2), f(6), strides=[2, 1], pads=[1, 0, 2, 1]),
    row("Conv", IMAGE, f(4, 1, 3, 3), group=4, dilations=[2, 1]),
    row("Conv", IMAGE, f(2, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    row("Conv", f(1, 2, 9), f(3, 2, 3)),
    row("ConvTranspose", IMAGE, f(4, 2, 3, 3), f(2), strides=[2, 2], pads=[1, 1, 1, 1]),
    row(
        "ConvTranspose", IMAGE, f(4, 3, 3, 3), strides=[2, 3], output_padding=[1, 2]
    ),
    row("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    row("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    row("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    row("AveragePool", IMAGE, kernel_shape=[2, 2], pads=[1, 0, 1, 0],
        count_include_pad=1),
    row("AveragePool", IMAGE, kernel_shape=[2, 2], dilations=[2, 1], pads=[1, 0, 0, 0]),
    row("GlobalAveragePool", IMAGE),
    row("GlobalLpPool", IMAGE, p=3),
    row("GlobalMaxPool", IMAGE),
    row("BatchNormalization", IMAGE, f(4), f(4), f(4), pos(4), epsilon=0.01),
    row("InstanceNormalization", IMAGE, f(4), f(4)),
    row("GroupNormalization", IMAGE, f(4), f(4), num_groups=2, opset=21),
    row("LayerNormalization", WIDE, f(4), f(4)),
    row("LayerNormalization", WIDE, f(2, 4), axis=1, epsilon=0.1),
    row("RMSNormalization", WIDE, f(4), opset=23),
    row("LRN", f(4, 4, 2, 2), size=3, alpha=0.3),
    row("Swish", X, alpha=0.5, opset=24),
    row("Resize", IMAGE, None, np.array([1, 1, 2, 3], np.float32)),
    row("Resize", IMAGE, None, None, i(2, 4, 14, 12), mode="linear"),
    row("Upsample", IMAGE, np.array([1, 1, 2, 2], np.float32), opset=9),
    row("LSTM", f(5, 2, 3), f(1, 16, 3), f(1, 16, 4), f(1, 32), outputs=3),
    row("LSTM", f(5, 2, 3), f(2, 16, 3), f(2, 16, 4), f(2, 32), None, f(2, 2, 4),
        f(2, 2, 4), outputs=3, direction="bidirectional", hidden_size=4),
    row("LSTM", f(1, 2, 3), f(1, 16, 3), f(1, 16, 4), f(1, 32), None, f(1, 2, 4),
        f(1, 2, 4), outputs=3),
    row("GRU", f(5, 2, 3), f(1, 12, 3), f(1, 12, 4), f(1, 24), outputs=2),
    row("GRU", f(5, 2, 3), f(1, 12, 3), f(1, 12, 4), f(1, 24), outputs=2,
        linear_before_reset=1),
    row("RNN", f(5, 2, 3), f(1, 4, 3), f(1, 4, 4), None, None, f(1, 2, 4), outputs=2),
]  # fmt: skip
_RECURRENT = {"LSTM", "GRU", "RNN"}


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0])
def test_a_node_means_what_onnx_says(row: Row, tmp_path: Path) -> None:
    kind, xs, fields, count, opset = row
    static = IMPORTS[kind].static
    names = ["" if x is None else f"x{k}" for k, x in enumerate(xs)]
    if kind in _RECURRENT:
        fields = {"hidden_size": xs[2].shape[-1], **fields}
    pairs = [(n, np.asarray(x)) for n, x in zip(names, xs, strict=True) if n]
    weights = {n: x for n, x in pairs if int(n[1:]) in static}
    inputs = {n: x for n, x in pairs if n not in weights}
    outputs = tuple(f"y{k}" for k in range(count))
    node = helper.make_node(kind, names, outputs, **fields)
    path = save(tmp_path / "m.onnx", [node], inputs, weights, outputs, opset)
    got = by_treadle(path, inputs)
    if kind == "Upsample":  # onnx's evaluator does not know these two
        want = [xs[0].repeat(2, 2).repeat(2, 3)]
    elif kind == "GlobalLpPool":
        want = [(np.abs(xs[0]) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)]
    else:
        want = by_onnx(path, inputs)
    if (kind, fields.get("direction")) == ("LSTM", "bidirectional"):
        got, want = got[:1], want[:1]
    same(got, want)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0])
def test_an_attribute_that_no_importer_reads_is_refused(
    row: Row, tmp_path: Path
) -> None:
    kind, xs, fields, count, opset = row
    names = [f"x{k}" for k in range(len(xs))]
    outputs = [f"y{k}" for k in range(count)]
    node = helper.make_node(kind, names, outputs, **fields, strange=1)
    path = save(tmp_path / "m.onnx", [node], dict.fromkeys(names, X), opset=opset)
    with pytest.raises(td.ModelFileError, match=f"{kind} with 'strange' is not read"):
        td.from_onnx(path)


def test_the_table_reads_attributes_that_onnx_has() -> None:
    """What newer versions of onnx add is refused until a row reads it."""
    known: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            known.setdefault(schema.name, set()).update(schema.attributes)
    for kind, made in IMPORTS.items():
        assert made.reads <= known.get(kind, made.reads), kind


@pytest.mark.parametrize("opset", [0, LAST + 1, 99])
def test_a_version_that_the_table_was_not_checked_with_is_refused(
    opset: int, tmp_path: Path
) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"x": X}, opset=opset)
    with pytest.raises(td.ModelFileError, match=f"version {opset} of ONNX's ops"):
        td.from_onnx(path)


REFUSED = [
    row("BatchNormalization", IMAGE, f(4), f(4), f(4), pos(4), spatial=0, opset=8),
    row("Conv", IMAGE, f(6, 4, 3, 2), kernel_shape=[2, 2]),
    row("ConvTranspose", IMAGE, f(4, 2, 3, 3), output_shape=[9, 9]),
    row("DepthToSpace", f(1, 8, 2, 3), blocksize=2, mode="RCD"),
    row("LayerNormalization", WIDE, f(4), stash_type=11),
    row("LSTM", f(5, 2, 3), f(1, 16, 3), f(1, 16, 4), activations=["Tanh"]),
    row("GRU", f(5, 2, 3), f(1, 12, 3), f(1, 12, 4), activation_alpha=[1.0]),
    row("RNN", f(5, 2, 3), f(1, 4, 3), f(1, 4, 4), hidden_size=5),
    row("Relu", X, outputs=2),
    row("Resize", IMAGE, antialias=1),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda r: r[0])
def test_what_would_change_the_values_is_refused(row: Row, tmp_path: Path) -> None:
    kind, xs, fields, count, opset = row
    inputs = {f"x{k}": x for k, x in enumerate(xs)}
    outputs = tuple(f"y{k}" for k in range(count))
    node = helper.make_node(kind, list(inputs), outputs, **fields)
    path = save(tmp_path / "m.onnx", [node], inputs, None, outputs, opset)
    with pytest.raises(td.ModelFileError):
        td.from_onnx(path)(**inputs)


def test_a_dimension_of_minus_one_is_open(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"x": X})
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    path.write_bytes(model.SerializeToString())
    net = td.from_onnx(path)
    assert net.inputs[0].shape == (None, 3)
    assert net(f(5, 3)).shape == (5, 3) and net(f(2, 3)).shape == (2, 3)


def test_a_network_is_read_from_bytes_and_file_objects(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"x": X})
    raw = path.read_bytes()
    want = np.maximum(X, 0)
    np.testing.assert_array_equal(td.from_onnx(raw)(X).numpy(), want)
    np.testing.assert_array_equal(td.from_onnx(io.BytesIO(raw))(X).numpy(), want)
    with path.open("rb") as file:
        np.testing.assert_array_equal(td.from_onnx(file)(X).numpy(), want)
    with pytest.raises(td.ModelFileError, match="opened for bytes"):
        td.from_onnx(io.StringIO("text"))
    with pytest.raises(td.ModelFileError, match="<bytes>: this is not an ONNX model"):
        td.from_onnx(raw[:20])


def test_a_shape_that_is_an_input_is_known_at_the_call(tmp_path: Path) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"x": X, "s": i(3, 2)})
    net = td.from_onnx(path)
    assert net(X, i(3, 2)).shape == (3, 2)
    assert net(X, td.asarray(i(1, 6)) * 1)[0].shape == (6,)
    with pytest.raises(td.ModelFileError, match="input 1 depends on data"):
        net.computation()


def test_a_condition_is_chosen_at_the_call_or_by_the_program(tmp_path: Path) -> None:
    def branch(kind: str) -> Any:
        y = helper.make_empty_tensor_value_info("b")
        node = helper.make_node(kind, ["x"], ["b"])
        return helper.make_graph([node], kind, [], [y])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Relu")
    )
    path = save(tmp_path / "m.onnx", [node], {"x": X, "c": np.array(True)})
    net = td.from_onnx(path)
    program = net.computation()
    for c, want in ((True, -X), (False, np.maximum(X, 0))):
        np.testing.assert_array_equal(net(X, np.array(c)).numpy(), want)
        np.testing.assert_array_equal(program(X, np.array(c)), want)


def test_a_loop_that_data_ends_runs_at_the_call_or_in_the_program(
    tmp_path: Path,
) -> None:
    # v doubles until it is at least 100; the second output stacks the values of v.
    info = helper.make_tensor_value_info
    number = TensorProto.FLOAT
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("Less", ["w", "limit"], ["more"]),
            helper.make_node("Identity", ["w"], ["row"]),
        ],
        "body",
        [info("k", TensorProto.INT64, []), info("go", TensorProto.BOOL, []),
         info("v", number, [])],
        [info("more", TensorProto.BOOL, []), info("w", number, []),
         info("row", number, [])],
    )  # fmt: skip
    start, limit = np.array(3.0, np.float32), np.array(100.0, np.float32)
    inputs = {"v0": start, "limit": limit}
    node = helper.make_node("Loop", ["", "", "v0"], ["y", "rows"], body=body)
    net = td.from_onnx(save(tmp_path / "m.onnx", [node], inputs, None, ("y", "rows")))
    last, rows = net(start, limit)
    assert float(last) == 192.0 and rows.tolist() == [
        6.0,
        12.0,
        24.0,
        48.0,
        96.0,
        192.0,
    ]
    with pytest.raises(td.ModelFileError, match="depends on data"):
        net.computation()
    del body.output[2], body.node[2]
    node = helper.make_node("Loop", ["", "", "v0"], ["y"], body=body)
    net = td.from_onnx(save(tmp_path / "n.onnx", [node], inputs))
    assert float(net(start, limit)) == float(net.computation()(start, limit)) == 192.0


def test_a_loop_that_its_count_ends_is_one_scan(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["more"]),
            helper.make_node("Mul", ["v", "x"], ["w"]),
        ],
        "body",
        [info("k", TensorProto.INT64, []), info("go", TensorProto.BOOL, []),
         info("v", TensorProto.FLOAT, [2, 3])],
        [info("more", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [2, 3])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    path = save(tmp_path / "m.onnx", [node], {"x": X}, {"n": np.array(40, np.int64)})
    net = td.from_onnx(path)
    y = net(X / 2)
    np.testing.assert_allclose(y.numpy(), (X / 2) ** 41, rtol=1e-4)
    ops = [node.op.name for node in net.computation().body.nodes]
    assert ops.count("Scan") == 1 and len(ops) < 10


def test_functions_of_a_file_are_called(tmp_path: Path) -> None:
    function = helper.make_function(
        "own", "Scaled", ["a"], ["b"],
        [
            helper.make_node("Constant", [], ["c"]),
            helper.make_node("Mul", ["a", "c"], ["b"]),
        ],
        [helper.make_opsetid("", 20)], ["factor"],
    )  # fmt: skip
    factor = function.node[0].attribute.add()
    factor.name, factor.ref_attr_name, factor.type = "value_float", "factor", 1
    nodes = [
        helper.make_node("Scaled", ["x"], ["h"], domain="own", factor=2.0),
        helper.make_node("Scaled", ["h"], ["y"], domain="own", factor=3.0),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": X})
    model = onnx.load(path)
    model.functions.append(function)
    model.opset_import.add(domain="own", version=1)
    net = td.from_onnx(model.SerializeToString())
    np.testing.assert_allclose(net(X).numpy(), 6 * X, rtol=1e-6)
    model.graph.node[0].attribute[0].name = "other"
    with pytest.raises(td.ModelFileError, match="Scaled with 'other' is not read"):
        td.from_onnx(model.SerializeToString())


def test_numbers_of_few_bits_are_stored(tmp_path: Path) -> None:
    packed = helper.make_tensor(
        "w",
        TensorProto.INT4,
        (3,),
        np.array([0x71, 0x0F], np.uint8).tobytes(),
        raw=True,
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("Mul", ["x", "d"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": X}, {"s": np.array(0.5, np.float32)},
                opset=21)  # fmt: skip
    model = onnx.load(path)
    model.graph.initializer.append(packed)
    net = td.from_onnx(model.SerializeToString())
    np.testing.assert_allclose(net(X).numpy(), X * [0.5, 3.5, -0.5])
    model.graph.initializer[-1].raw_data = b"1"
    with pytest.raises(td.ModelFileError, match=r"'w': 1 bytes for int4\[3\], not 2"):
        td.from_onnx(model.SerializeToString())


def test_an_old_softmax_is_over_all_that_follows_its_axis(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"x": WIDE}, opset=11)
    (y,) = by_treadle(path, {"x": WIDE})
    np.testing.assert_allclose(y.sum((1, 2)), 1, rtol=1e-6)


def test_a_border_may_be_cut_off(tmp_path: Path) -> None:
    node = helper.make_node("Pad", ["x", "p"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {"x": X}, {"p": i(0, -1, 1, 0)})
    (y,) = by_treadle(path, {"x": X})
    np.testing.assert_array_equal(y, np.pad(X[:, 1:], ((0, 1), (0, 0))))


def test_long_signals_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 600_000)).astype(np.float32)
    window = np.hanning(512).astype(np.float32)
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"),
        helper.make_node("STFT", ["p", "hop", "w"], ["y"]),
    ]
    weights = {"pads": np.array([0, 9, 0, 9]), "hop": np.array(128), "w": window}
    net = td.from_onnx(save(tmp_path / "m.onnx", nodes, {"x": x}, weights))
    y = net(x).numpy()
    wide = np.pad(x, ((0, 0), (9, 9)), "reflect")
    frames = np.lib.stride_tricks.sliding_window_view(wide, 512, 1)[:, ::128]
    want = np.fft.rfft(frames * window)
    assert y.shape == (2, 4684, 257, 2)
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], want, atol=2e-4)


def test_a_network_trains_on(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node("BatchNormalization", ["h", "s", "s", "m", "v"], ["n"]),
        helper.make_node("Mul", ["n", "half"], ["y"]),
    ]
    weights = {"w": f(3, 2), "b": f(2), "s": f(2), "m": f(2), "v": pos(2)}
    weights["half"] = np.array(0.5, np.float32)
    x = {"x": f(4, 3)}
    net = td.from_onnx(save(tmp_path / "m.onnx", nodes, x, weights, open_=("x",)))
    assert [k for k, _ in net.named_parameters()] == ["w", "b", "s"]
    assert [k for k, _ in net.named_buffers()] == ["m", "v"]
    step = td.optim.SGD(lr=0.1)
    losses = []
    for _ in range(5):
        loss = td.square(net(x["x"])).mean()
        step.step(loss)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True)
    assert net(f(7, 3)).shape == (7, 2)  # the batch is open
    traced = td.function(lambda value: net(value))
    np.testing.assert_allclose(traced(x["x"]).numpy(), net(x["x"]).numpy(), 1e-6)
    assert net.computation(batch=2)(f(2, 3)).shape == (2, 2)
    td.save(tmp_path / "w.safetensors", net)
    other = td.from_onnx(tmp_path / "m.onnx")
    td.load(tmp_path / "w.safetensors", other)
    np.testing.assert_array_equal(other(x["x"]).numpy(), net(x["x"]).numpy())


def test_shapes_are_computed_while_the_graph_is_built(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "first"], ["r"]),
        helper.make_node("Concat", ["r", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"zero": np.array(0, np.int64), "first": i(0), "rest": i(-1)}
    path = save(tmp_path / "m.onnx", nodes, {"x": WIDE}, weights, open_=("x",))
    assert by_treadle(path, {"x": WIDE})[0].shape == (3, 8)
    assert by_treadle(path, {"x": f(1, 2, 4)})[0].shape == (1, 8)


def test_wrong_inputs_are_told_by_name(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    net = td.from_onnx(save(tmp_path / "m.onnx", [node], {"x": X}))
    with pytest.raises(td.ArityError, match="takes x, got 0"):
        net()
    with pytest.raises(td.ShapeError, match="'x' has shape"):
        net(f(3, 3))
    with pytest.raises(td.DTypeError, match="'x' is float32"):
        net(td.asarray(i(1)))
    open_ = td.from_onnx(save(tmp_path / "o.onnx", [node], {"x": X}, open_=("x",)))
    with pytest.raises(td.ShapeError, match="open dimension 'batch'"):
        open_.computation()
