"""Forms of activations that are smaller ops here, and one node in ONNX.

They are known by their form, so it does not matter who has written it. Attributes are
single floats there, and runtimes have few of these ops in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.base.types import broadcast_shapes
from treadle.graph.tensor import Tensor
from treadle.io.onnx.writer import Writer
from treadle.rewrite.pattern import Found, Pattern, captures, of

_SINGLE = ("bfloat16", "float16", "float32")  # an attribute holds all their values
_CLIPPED = (*_SINGLE, "float64", "int32", "int64")

where, greater, tanh, expm1 = of("Select"), of("Greater"), of("Tanh"), of("Expm1")
at_most, at_least = of("LessEqual"), of("GreaterEqual")
minimum, maximum, stopped = of("Minimum"), of("Maximum"), of("StopGradient")
less = of("Less")


def number_of(x: Tensor) -> Any:
    """The number that a node holds; None if it holds none."""
    if x.stored is None or x.inputs or x.type.shape:
        return None
    return np.asarray(x.array).item()


x, slope = captures("x slope")
a, b, c, half, one, zero, zero_, low, low_, high, high_ = captures(
    "a b c half one zero zero_ low low_ high high_",
    lambda x: isinstance(number_of(x), (int, float)),
)


@dataclass(frozen=True)
class ActivationForm:
    """A form of smaller ops, and the node of `kind` that it is.

    It is one if captured numbers are those of `equal` and `alike` have one value.
    Captures become attributes, and inputs after x, by the names given.
    """

    kind: str
    form: Pattern
    equal: dict[str, float] = field(default_factory=dict)
    alike: tuple[tuple[str, str], ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    text: dict[str, str] = field(default_factory=dict)
    dtypes: tuple[str, ...] = _SINGLE

    def written(self, w: Writer, node: Tensor) -> str | None:
        """The name of the one node; None where the form does not fit."""
        if node.type.dtype.name not in self.dtypes:
            return None
        found = next(filter(self._fits, self.form.match(node, {})), None)
        if found is None:
            return None
        inputs = [w.name_of(found[name]) for name in ("x", *self.inputs)]
        numbers = {key: number_of(found[n]) for key, n in self.attributes.items()}
        return w.add(self.kind, *inputs, **numbers, **self.text)

    def _fits(self, found: Found) -> bool:
        numbers = {name: number_of(node) for name, node in found.items()}
        return (
            all(
                numbers[name] == float(found[name].type.dtype.type(value))
                for name, value in self.equal.items()
            )
            and all(numbers[p] == numbers[q] for p, q in self.alike)
            and ("low" not in numbers or numbers["low"] <= numbers["high"])
            and all(
                broadcast_shapes(found["x"].type.shape, found[name].type.shape)
                == found["x"].type.shape
                for name in self.inputs
            )
        )


ramp = x * a + b
gate = where(at_most(ramp, low), low_, where(at_least(ramp, high), high_, ramp))
near = minimum(maximum(x, low), high)
bend = (near + near * near * near * b) * c
UNIT: dict[str, float] = {"low": 0, "low_": 0, "high": 1, "high_": 1}
FORMS = {
    "Select": (
        ActivationForm(
            "HardSigmoid", gate, UNIT, attributes={"alpha": "a", "beta": "b"}
        ),
        ActivationForm(
            "Clip",
            where(at_most(x, low), low_, where(at_least(x, high), high_, x)),
            alike=(("low", "low_"), ("high", "high_")),
            inputs=("low", "high"),
            dtypes=_CLIPPED,
        ),
        ActivationForm(  # the slope of what is kept above a goes through
            "Max",
            where(less(x, a), (x - stopped(x)) + b, x),
            alike=(("a", "b"),),
            inputs=("a",),
            dtypes=_CLIPPED,
        ),
        ActivationForm(
            "Elu",
            where(greater(x, zero), x, expm1(minimum(x, zero_)) * a),
            {"zero": 0, "zero_": 0},
            attributes={"alpha": "a"},
        ),
        ActivationForm(
            "Celu",
            where(greater(x, zero), x, expm1(minimum(x, zero_) / a) * b),
            {"zero": 0, "zero_": 0},
            alike=(("a", "b"),),
            attributes={"alpha": "a"},
            dtypes=("float32",),  # ONNX has it for no other
        ),
        ActivationForm(
            "LeakyRelu",
            where(greater(x, zero), x, x * a),
            {"zero": 0},
            attributes={"alpha": "a"},
        ),
        ActivationForm(
            "PRelu",
            where(greater(x, zero), x, x * slope),
            {"zero": 0},
            inputs=("slope",),
        ),
    ),
    "Minimum": (ActivationForm("Clip", near, inputs=("low", "high"), dtypes=_CLIPPED),),
    "Multiply": (
        ActivationForm("HardSwish", x * gate, {**UNIT, "a": 1 / 6, "b": 0.5}),
        ActivationForm(
            "Gelu",
            (x * half) * (tanh(bend) + one),
            {
                "half": 0.5,
                "one": 1,
                "low": -10,
                "high": 10,
                "b": 0.044715,
                "c": 0.7978845608028654,
            },
            text={"approximate": "tanh"},
        ),
    ),
}


def as_activation(w: Writer, node: Tensor) -> str | None:
    """The one node of an op that is the last one of a form, None if it is not."""
    written = (form.written(w, node) for form in FORMS.get(node.op.name, ()))
    return next(filter(None, written), None)


p, q = captures("p q")
log, exp, equal = of("Log"), of("Exp"), of("Equal")
least = captures("least", lambda x: (number_of(x) or 0) < -1e4)[0]  # its exp is 0
# What `td.kl_div` selects for the sake of gradients; values need it once, at the end.
_OF_MASS = p * (log(where(equal(p, 0), 1, p)) - where(equal(p, 0), 0, q))
_OF_LOG_MASS = where(equal(exp(p), 0), 0, exp(p) * (maximum(p, least) - q))


def as_divergence(w: Writer, node: Tensor) -> str | None:
    """The terms of a divergence, 0 where the mass is; None if a node is no such."""
    of_mass = node.op.name == "Multiply"
    form = _OF_MASS if of_mass else _OF_LOG_MASS
    found = next(form.match(node, {}), None)
    if found is None:
        return None
    mass, far = w.name_of(found["p"]), w.name_of(found["q"])
    logarithm = w.add("Log", mass) if of_mass else mass
    mass = mass if of_mass else w.add("Exp", mass)
    zero = w.array(0, node.type.dtype)
    terms = w.add("Mul", mass, w.add("Sub", logarithm, far))
    return w.add("Where", w.add("Equal", mass, zero), zero, terms)
