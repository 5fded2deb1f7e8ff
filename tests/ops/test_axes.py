"""Axis names through every op: each has a rule here, read as parts of dimensions.

A rule is written in parts, as "n c *s, o c *k -> n o *s": what plays one part has one
name, "*s" stands for any number of dimensions, "_" for one without a name, ";" divides
several results. The reference is this text and nothing of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import treadle as td
import treadle.distributed  # its collectives are ops, too
from tests.cases import by_letter, each
from tests.ops.samples import Sample, samples_of
from tests.ops.sampling import tensors_of
from treadle.base.types import Names, TupleType, Type
from treadle.graph.op import registry

SAME = "*d -> *d"
BOTH = "*d, *d -> *d"

RULES = {
    "AllGather": SAME,
    "AllReduce": SAME,
    "AllToAll": SAME,
    "ReduceScatter": SAME,
    "FromRoot": SAME,
    "ToRoot": SAME,
    "Exchange": SAME,
    "Complement": "*b i j -> *b _ _",
    "Eig": "*b i j -> *b _ ; *b _ _",
    "Fourier": SAME,
    "RealFourier": SAME,
    "InverseRealFourier": SAME,
    "After": "*d,*e->*d",
    "Callback": "*d,*e->*d",
    "Custom": "*d,*e->*d",
    "Host": "*d,*e->*_;*_",
    "HostEffect": "*d,*e->*_;*_",
    "ArgSort": SAME,
    "Attention": "*b q d, *b k d, *b k e -> *b q e",
    "CSRDots": "_, _, _ *d, _ *d -> _",
    "CSRMatMul": "_, _, _, _ *d -> _ *d",
    "SegmentSum": "_, _ *d -> _ *d",
    "CTC": "t n c, n s, n, n -> n",
    "Care": "*b i j, *b k l, *b m n, *b o p -> *b _ _",
    "Cholesky": "*b i j -> *b _ _",
    "Cofactors": "*b i j -> *b _ _",
    "CombineRows": "_, *d -> *d",
    "Concat": "*d -> *d",
    "ConstrainedSoftmax": BOTH,
    "Conv": "n c *s, o c *k -> n o *s",
    "ConvInputGradient": "n o *s, o c *k -> n c *s",
    "ConvWeightGradient": "n c *s, n o *s -> o c *_",
    "CumulativeLogSumExp": SAME,
    "CumulativeMax": SAME,
    "CumulativeProd": SAME,
    "CumulativeSum": SAME,
    "Dare": "*b i j, *b k l, *b m n, *b o p -> *b _ _",
    "Dawsn": SAME,
    "Determinant": "*b i j -> *b",
    "Diagonal": "*b i j -> *b _",
    "DiscreteLyapunov": "*b i j, *b k l -> *b _ _",
    "Dropout": "*d -> *d",
    "Eigh": "*b i j -> *b _ ; *b _ _",
    "Embedding": "r *d, *i -> *i *d",
    "Flip": SAME,
    "Fold": "n c p -> n *_",
    "GruCell": "*b g, *b g, *b h -> *b h",
    "InRange": SAME,
    "Inverse": "*b i j -> *b _ _",
    "LGamma": SAME,
    "LinearRecurrence": BOTH,
    "LogSoftmax": SAME,
    "LstmCell": "*b g, *b h -> *b h ; *b h",
    "Lyapunov": "*b i j, *b k l -> *b _ _",
    "MatrixExp": "*b i j -> *b _ _",
    "MaxPool": SAME,
    "MaxPoolGradient": BOTH,
    "MaxPoolPositions": SAME,
    "NearestCodes": "w n, *d v -> *d _",
    "NormalBits": "*d -> *_",
    "Normalize": "*d, -> *d",
    "OneHot": "*d -> *d _",
    "Pad": "*d, -> *d",
    "Polygamma": SAME,
    "PseudoInverse": "*b i j, *b -> *b _ _",
    "PutAlong": BOTH,
    "QR": "*b i j -> *b _ _ ; *b _ _",
    "Reshape": "*d -> *_",
    "Roll": SAME,
    "RootMeanSquare": "*d, -> *d",
    "RowsToDense": "*i, *d -> *_",
    "RunningStatistics": "*d, , , , c, c ->  ; c ; c",
    "SVD": "*b i j -> *b _ _ ; *b _ ; *b _ _",
    "SearchSorted": "r, *d -> *d",
    "SetSlice": BOTH,
    "Slice": SAME,
    "SlogDet": "*b i j -> *b ; *b",
    "Softmax": SAME,
    "Solve": "*b i j, *b k l -> *b _ _",
    "Sort": SAME,
    "Sparsemax": SAME,
    "Standardize": "*d, -> *d",
    "SumPool": SAME,
    "SumPoolGradient": SAME,
    "Sylvester": "*b i j, *b k l, *b m n -> *b _ _",
    "TakeAlong": BOTH,
    "TopK": "*d -> *d ; *d",
    "TriangularSolve": "*b i j, *b k l -> *b _ _",
    "Unfold": "n c *s -> n _ _",
    "UniformBits": "*d -> *_",
    "Unindex": "*d -> *_",
    "Unslice": SAME,
}

# Convolutions in groups: a weight's channels are those of one group, and no axis of x.
GROUPED = {
    "Conv": "n c *s, o g *k -> n o *s",
    "ConvInputGradient": "n o *s, o g *k -> n _ *s",
    "ConvWeightGradient": "n c *s, n o *s -> o _ *_",
}


def reduced(op: Any, t: Type) -> tuple[Names, Names]:
    names = tuple(f"d{k}" for k in range(t.ndim))
    axes = op.axes if hasattr(op, "axes") else (op.axis,)
    if getattr(op, "keepdims", False):
        return names, tuple(None if k in axes else d for k, d in enumerate(names))
    return names, tuple(d for k, d in enumerate(names) if k not in axes)


def labels(op: Any, x: Type, _: Type) -> tuple[Names, Names, Names]:
    names = tuple(f"d{k}" for k in range(x.ndim))
    rest = (*names[: op.axis], *names[op.axis + 1 :])
    return names, rest, rest


def indexed(op: Any, x: Type, *rest: Type) -> tuple[Names, ...]:
    """x[ids] at `axes`: what is indexed is replaced by the positions' names."""
    names = tuple(f"d{k}" for k in range(x.ndim))
    ids = rest if type(op).__name__ == "Index" else rest[1:]
    ndim = max(t.ndim for t in ids)
    places = tuple(f"i{k}" for k in range(ndim))
    kept = tuple(d for k, d in enumerate(names) if k not in op.axes)
    part = (*kept[: op.place], *places, *kept[op.place :])
    own = [places[ndim - t.ndim :] for t in ids]
    if type(op).__name__ == "Index":
        return names, *own, part
    values = part[len(part) - rest[0].ndim :] if rest[0].ndim else ()
    return names, values, *own, names


def contracted(op: Any, *types: Type) -> tuple[Names, ...]:
    operands, out = op.spec.split("->")
    return *map(tuple, operands.split(",")), tuple(out)


def broadcast(op: Any, *types: Type) -> tuple[Names, ...]:
    """Operands that meet by position, counted from the last dimension."""
    ndim = max(t.ndim for t in types)
    names = tuple(f"d{k}" for k in range(ndim))
    return *[names[ndim - t.ndim :] for t in types], names


def widened(op: Any, t: Type) -> tuple[Names, Names]:
    names = tuple(f"d{k}" for k in range(t.ndim))
    return names, (None,) * (len(op.shape) - t.ndim) + names


def permuted(op: Any, t: Type) -> tuple[Names, Names]:
    names = tuple(f"d{k}" for k in range(t.ndim))
    return names, tuple(names[k] for k in op.order)


OWN = {
    "ArgMax": reduced,
    "ArgMin": reduced,
    "BroadcastTo": widened,
    "Contract": contracted,
    "CrossEntropy": labels,
    "Index": indexed,
    "IndexFold": indexed,
    "IndexSet": indexed,
    "LogSumExp": reduced,
    "Mean": reduced,
    "Median": reduced,
    "NextAfter": broadcast,
    "Outcome": reduced,
    "PermuteDims": permuted,
    "PickLabel": labels,
    "SparsemaxLoss": labels,
    "Unlikelihood": labels,
    "Var": reduced,
}
FAMILIES = {"elementwise": broadcast, "reduction": reduced}
# What has no operand of its own, or takes the types of what it was traced from.
BESIDE = {"leaf", "control", "derivative", "tape", "state", "output"}


def operand_names(text: str, ndim: int, many: dict[str, Names]) -> Names:
    """Names of an operand by the parts of a rule; "*d" takes what is left over."""
    parts = text.split()
    found: list[str | None] = []
    for part in parts:
        if not part.startswith("*"):
            found.append(None if part == "_" else part)
            continue
        count = ndim - len(parts) + 1
        # Counted from the last one, so that what broadcasts meets.
        own = tuple(f"{part[1:]}{k - count}" for k in range(count))
        many[part] = own = (None,) * count if part == "*_" else own
        found += own
    assert len(found) == ndim, f"{text!r} is not for {ndim} dimensions"
    return tuple(found)


def result_names(text: str, ndim: int, many: dict[str, Names]) -> Names:
    """Names of a result by the same parts."""
    found: list[str | None] = []
    for part in text.split():
        if part == "*_":
            found += [None] * (ndim - len(found))
        elif part.startswith("*"):
            found += many[part]
        else:
            found.append(None if part == "_" else part)
    return tuple(found)


def expected(sample: Sample, types: Sequence[Type]) -> tuple[list[Names], list[Names]]:
    """Names to give the operands, and those that the results then have."""
    name, op = type(sample.op).__name__, sample.op
    rule: Any = OWN.get(name) or FAMILIES.get(op.family)
    if rule is not None:
        *names, result = rule(op, *types)
        return names, [result]
    grouped = getattr(op, "groups", 1) > 1
    given, result = (GROUPED if grouped else RULES)[name].split("->")
    operands = given.split(",")
    if name == "Concat":
        operands *= len(types)
    many: dict[str, Names] = {}
    names = [
        operand_names(text, t.ndim, many)
        for text, t in zip(operands, types, strict=False)
    ]
    made = _results(op.infer(*types))
    texts = result.split(";")
    return names, [
        result_names(r, t.ndim, many) for r, t in zip(texts, made, strict=True)
    ]


def told(names: Names) -> Names | None:
    return names if any(names) else None


OPS = {name: cls for name, cls in registry.whole().items() if cls.family not in BESIDE}


MEETING = [n for n, c in OPS.items() if c.arity != 1 and n not in ("Reshape",)]
# What is no part of another operand: a position, a seed, a row that is searched, ...
CALLED_FREELY = {
    "After",
    "CSRDots",
    "CSRMatMul",
    "Callback",
    "ClipGradient",
    "CombineRows",
    "Custom",
    "Dropout",
    "Embedding",
    "Host",
    "HostEffect",
    "NearestCodes",
    "Normalize",
    "Pad",
    "RootMeanSquare",
    "RowsToDense",
    "RunningStatistics",
    "ScaleGradient",
    "SearchSorted",
    "SegmentSum",
    "Standardize",
    "Unindex",
}


def test_every_op_has_a_rule_for_names() -> None:
    known = {*RULES, *OWN, *[n for n, c in OPS.items() if c.family in FAMILIES]}
    assert set(OPS) <= known
    assert not (set(RULES) | set(OWN)) - set(OPS), "a rule without its op"


@each("name", by_letter(sorted(OPS)))
def test_names_of_the_result_are_those_of_the_rule(name: str) -> None:
    for sample in samples_of(OPS[name]):
        types = [x.type for x in tensors_of(sample)]
        if any(isinstance(t, TupleType) for t in types):
            continue
        names, wanted = expected(sample, types)
        found = _results(sample.op.infer(*_named(types, names)))
        plain = _results(sample.op.infer(*types))
        assert [t.axes for t in found] == [told(own) for own in wanted], sample.op
        assert [t.shape for t in found] == [t.shape for t in plain]


@pytest.mark.parametrize("name", sorted(set(MEETING) - set(CALLED_FREELY)))
def test_two_names_for_one_part_are_refused(name: str) -> None:
    """Never an outer product, never a name that is dropped unseen."""
    tried = 0
    for sample in samples_of(OPS[name]):
        types = [x.type for x in tensors_of(sample)]
        names, _ = expected(sample, types)
        for k, own in enumerate(names[1:], 1):
            before = {d for other in names[:k] for d in other if d}
            if not before.intersection(own):
                continue
            other = list(names)
            other[k] = tuple(f"other {d}" if d else None for d in own)
            tried += 1
            with pytest.raises(td.AxisError, match="other"):
                sample.op.infer(*_named(types, other))
    assert tried, "no operands of its samples meet"


def _named(types: Sequence[Type], names: Sequence[Names]) -> list[Type]:
    # Operands beyond the rule's (an optional mask) have none.
    rest = [()] * (len(types) - len(names))
    pairs = zip(types, [*names, *rest], strict=True)
    return [Type(t.shape, t.dtype, told(own)) for t, own in pairs]


def _results(t: Any) -> tuple[Type, ...]:
    return tuple(t) if isinstance(t, TupleType) else (t,)
