"""Convolutions as generated code; see README.md."""

from __future__ import annotations

from treadle.engines.native.codegen.contraction.epilogue import Epilogue
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.convolution.plan import plan_data, plan_forward
from treadle.engines.native.codegen.convolution.steps import ConvPlan, Pointer, Step
from treadle.engines.native.codegen.convolution.weights import plan_weights
from treadle.program.convolution import Convolution

__all__ = ["ConvPlan", "Pointer", "Step", "plan_convolution"]


def plan_convolution(
    problem: Convolution,
    epilogue: Epilogue | None = None,
    target: Machine | None = None,
) -> ConvPlan:
    """The kernels that compute a convolution, or one of its gradients, in order.

    The epilogue gets finished vectors of y, of which `problem.along` says what they run
    along; gradients have none.
    """
    if problem.computes == "y":
        return plan_forward(problem, epilogue, target)
    assert epilogue is None, "gradients of convolutions are not finished in registers"
    plan = plan_data if problem.computes == "x" else plan_weights
    return plan(problem, target)
