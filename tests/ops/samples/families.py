"""Samples of the ops of ops.families, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import (
    Mistake,
    Sample,
    binary_samples,
    drawn,
    mistakes,
    replace_shape,
    samples,
    samples_of,
    tensors_of,
    unary_samples,
)
from treadle.base.dtypes import KINDS, bool_, complex64, float32, int32, kind
from treadle.base.errors import ArityError, DTypeError, ShapeError, TreadleError
from treadle.graph.leaves import as_tensor
from treadle.ops.families import Elementwise, Family, Output


@mistakes(Family)
def family_mistakes(cls: Any) -> list[Mistake]:
    sample = samples_of(cls)[0]
    inputs = tensors_of(sample)
    cases: list[Mistake] = []
    if cls.arity is not None:
        surplus = [*inputs, as_tensor(1.0)]
        cases.append(Mistake(lambda: sample.op(*surplus), ArityError, "operands"))
    if cls.takes != "any":
        wrong = next(
            d
            for d in (bool_, int32, float32, complex64)
            if kind(d) not in KINDS[cls.takes]
        )
        bad = [as_tensor(x.numpy().astype(wrong)) for x in inputs]
        cases.append(Mistake(lambda: sample.op(*bad), DTypeError, wrong.name))
    return cases


@samples(Elementwise)
def elementwise_samples(cls: Any) -> list[Sample]:
    """Samples of values from the domain, over shapes that broadcast."""
    if cls.arity == 1:
        (x,) = cls.domain
        return unary_samples(cls(), x.low, x.high, x.apart, cls.sample_dtypes)
    return binary_samples(cls(), cls.domain[0], cls.domain[-1], cls.sample_dtypes)


@mistakes(Elementwise)
def elementwise_mistakes(cls: Any) -> list[Mistake]:
    sample = samples_of(cls)[0]
    if len(sample.inputs) < 2:
        return []
    wide = as_tensor(np.array(drawn(replace_shape(sample.inputs[0], (2, 3)))))
    long = as_tensor(np.array(drawn(replace_shape(sample.inputs[1], (4,)))))
    rest = tensors_of(sample)[2:]
    says = "do not broadcast"
    return [Mistake(lambda: sample.op(wide, long, *rest), ShapeError, says)]


@samples(Output)
def output_samples(cls: Any) -> list[Sample]:
    return []


@mistakes(Output)
def output_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(1.0)
    return [Mistake(lambda: cls(0)(x), TreadleError, "several results")]
