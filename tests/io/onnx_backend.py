"""onnx's own backend cases through `td.from_onnx`: `python -m tests.io.onnx_backend`.

Prints how many pass, which are wrong, and how many each reason refuses. A case passes
when shapes, dtypes and values are those of its own outputs, by its own tolerances.
"rounding" is a case whose tolerance is finer than the dtype of its outputs: values off
by at most two units in the last place of the greatest one.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td

__all__ = ["Case", "cases", "result_of"]

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")


@dataclass(frozen=True)
class Case:
    """A model of onnx's backend tests, and the values that it takes and gives."""

    name: str
    model: bytes
    sets: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float


class Rounding(Exception):
    """Values that differ by less than their dtype can be relied on for."""


def cases(*kinds: str) -> Iterator[Case]:
    """The cases of some kinds, in the order in which onnx lists them."""
    from onnx.backend.test.loader import load_model_tests

    for kind in kinds or KINDS:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            listed = load_model_tests(kind=kind)
        for case in sorted(listed, key=lambda case: case.name):
            yield _case(case)


def _case(case: Any) -> Case:
    if case.model is not None:
        model, sets = case.model.SerializeToString(), case.data_sets
        arrays = [([_value(x) for x in a], [_value(x) for x in b]) for a, b in sets]
    else:
        path, arrays = _on_disk(case)
        with open(path, "rb") as file:
            model = file.read()
    return Case(case.name, model, tuple(arrays), case.rtol, case.atol)


def _on_disk(case: Any) -> tuple[str, list[tuple[list[Any], list[Any]]]]:
    """The path of a model and its data sets; the large models have only their graph."""
    import onnx

    if case.model_dir is None:
        root = os.path.dirname(os.path.dirname(onnx.__file__))
        path = os.path.join(root, case.url)
        base = path.removesuffix(".onnx")
        model = onnx.load(path)
        weights = {t.name for t in model.graph.initializer}
        given = [_example(x) for x in model.graph.input if x.name not in weights]
        return path, [(given, _read_all(model.graph.output, f"{base}_output_", ""))]
    sets = []
    path = os.path.join(case.model_dir, "model.onnx")
    model = onnx.load(path)
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set*"))):
        inputs = _read_all(model.graph.input, f"{folder}/input_", ".pb")
        sets.append((inputs, _read_all(model.graph.output, f"{folder}/output_", ".pb")))
    return path, sets


def _example(info: Any) -> Any:
    """The input that onnx's runner gives a model without data."""
    shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
    n = int(np.prod(shape))
    return (np.arange(n).reshape(shape) / n).astype(np.float32)


def _read_all(ports: Any, prefix: str, ending: str) -> list[Any]:
    """The numbered files of values, one for each port that has one."""
    values = []
    for k, port in enumerate(ports):
        path = f"{prefix}{k}{ending or '.pb'}"
        if os.path.exists(path):
            values.append(_read(path, port.type))
    return values


def _read(path: str, type_: Any) -> Any:
    import onnx

    with open(path, "rb") as file:
        raw = file.read()
    if type_.HasField("sequence_type"):
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if type_.HasField("optional_type"):
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def _value(x: Any) -> Any:
    import onnx

    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def result_of(case: Case) -> tuple[str, str]:
    """ "pass", "wrong" or "refused", and why."""
    try:
        net = td.from_onnx(case.model)
        for inputs, wanted in case.sets:
            values = net(*inputs)
            values = values if isinstance(values, tuple) else (values,)
            _compare(values, wanted, case)
    except td.TreadleError as error:
        return "refused", error.message
    except Rounding as error:
        return "rounding", str(error)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:200]
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"[:200]
    return "pass", ""


def _compare(values: Sequence[Any], wanted: Sequence[Any], case: Case) -> None:
    assert len(values) == len(wanted), f"{len(values)} results, not {len(wanted)}"
    for y, want in zip(values, wanted, strict=True):
        if isinstance(want, list):
            assert isinstance(y, list), f"{type(y).__name__}, not a sequence"
            _compare(y, want, case)
        elif want is None or y is None:
            assert y is want, f"{y}, not {want}"
        else:
            _compare_arrays(np.asarray(y), np.asarray(want), case)


def _compare_arrays(y: Any, want: Any, case: Case) -> None:
    assert y.shape == want.shape, f"shape {y.shape}, not {want.shape}"
    assert y.dtype == want.dtype, f"dtype {y.dtype}, not {want.dtype}"
    rtol = case.rtol
    if y.dtype.kind not in "biufc":  # narrow floats, as onnx's runner compares them
        rtol = max(rtol, 2**-6) if y.dtype.name == "bfloat16" else rtol
        y, want = y.astype(np.float32), want.astype(np.float32)
    try:
        np.testing.assert_allclose(y, want, rtol=rtol, atol=case.atol)
    except AssertionError:
        if y.dtype.kind not in "fc" or not np.isfinite(want).all():
            raise
        unit = np.finfo(y.dtype).eps * np.abs(want).max()
        most = np.abs(y.astype(np.float64) - want).max()
        if most > 2 * unit:
            raise
        raise Rounding(f"off by {most:.2g}, {most / unit:.2g} units") from None


def _kind(reason: str) -> str:
    """A reason without what is of one case: places, numbers and names of nodes."""
    reason = re.sub(r"^[^:]*: ", "", reason)
    reason = re.sub(r"node '?[^(]*'? \((\w+)\)", r"\1", reason)
    reason = re.sub(r" \(node \d+(, node \d+)*(, \.\.\.)?\)", "", reason)
    return re.sub(r"\d+", "#", reason)[:100]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    parser.add_argument("--kind", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--engine", default="reference")
    parser.add_argument("--names", action="store_true", help="name every case")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    reasons: dict[str, list[str]] = {}
    with td.options(engine=args.engine), np.errstate(all="ignore"):
        for case in cases(*args.kind):
            if args.only not in case.name:
                continue
            result, reason = result_of(case)
            counts[result] += 1
            if result in ("wrong", "rounding") or (args.names and reason):
                print(f"{result}: {case.name}: {reason}")
            if result == "refused":
                reasons.setdefault(_kind(reason), []).append(case.name)
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):5}  {reason}  [{', '.join(names[:2])}]")
    print(f"of {counts.total()}: {dict(counts)}")


if __name__ == "__main__":
    main()
