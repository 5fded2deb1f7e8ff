"""Forward mode, Jacobians and Hessians, made of reverse mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.autodiff.cached import seen
from treadle.autodiff.gradient import derivatives, grad
from treadle.autodiff.reverse import fitted, zeros_like
from treadle.base import trees
from treadle.base.errors import ArityError, GradientError
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import Operand, functions
from treadle.graph.tensor import Tensor, new_node
from treadle.ops.families import outputs_of

__all__ = ["hessian", "hvp", "jacobian", "jvp"]


def jvp(y: Any, xs: Any, tangents: Any, *, unused: str = "error") -> Any:
    """The derivative of `y` along `tangents` of `xs`: J t, with the structure of y.

    The cotangents of xs are linear in the cotangent u of y; their derivative by u along
    the tangents is J t (Townsend, 2017), so forward mode needs no rule of its own.

    >>> x = td.asarray([1.0, 2.0])
    >>> td.jvp(x * x, [x], [td.asarray([1.0, 0.5])]).tolist()
    [2.0, 2.0]
    """
    ys, structure = trees.flatten(y)
    nodes = [as_tensor(leaf) for leaf in ys]
    leaves = trees.flatten(xs)[0]
    directions = [as_tensor(t) for t in trees.flatten(tangents)[0]]
    if len(leaves) != len(directions):
        message = f"{len(leaves)} inputs with {len(directions)} tangents"
        raise ArityError(message).located("jvp")
    seeds = [zeros_like(node) for node in nodes]
    pulled = derivatives(nodes, seeds, leaves, unused)
    along = [
        fitted(t, x.node() if isinstance(x, Operand) else as_tensor(x))
        for t, x in zip(directions, leaves, strict=True)
    ]
    products = derivatives(pulled, along, seeds, "zero")
    return trees.unflatten(structure, products)


def jacobian(y: Any, xs: Any) -> Any:
    """All derivatives of the tensor `y` by each x: shape y.shape + x.shape.

    >>> x = td.asarray([1.0, 2.0])
    >>> td.jacobian(x * x, [x])[0].tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    node = as_tensor(y)
    leaves, structure = trees.flatten(xs)
    t = node.type
    basis = constant_node(np.eye(t.size, dtype=t.dtype).reshape(t.size, *t.shape))

    def pulled(g: Tensor) -> list[Tensor]:
        return derivatives([node], [g], leaves, "zero")

    if not all(isinstance(x, Operand) for x in leaves):
        raise GradientError("derivatives are by tensors").located("jacobian")
    before = seen([node], leaves, rows=True) if leaves else None
    if before is not None and before.known is not None:
        loop = before.known.op, (basis, *before.targets), before.known.type
        rows = outputs_of(new_node(*loop, 3))
    else:
        rows = functions.map(pulled, basis)
        if before is not None:
            before.note_rows(rows[0].inputs[0], 1)
    blocks = [
        functions.reshape(r, (*t.shape, *x.shape))
        for r, x in zip(rows, leaves, strict=True)
    ]
    return trees.unflatten(structure, blocks)


def hessian(y: Any, x: Operand) -> Tensor:
    """The second derivatives of the scalar `y` by `x`: shape x.shape + x.shape.

    >>> x = td.asarray([1.0, 2.0])
    >>> td.hessian((x * x * x).sum(), x).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    (gx,) = grad(y, [x], unused="zero")
    return jacobian(gx, [x])[0]


def hvp(y: Any, x: Operand, v: Any) -> Tensor:
    """The Hessian of scalar `y` times `v`, without forming the matrix.

    >>> x = td.asarray([1.0, 2.0])
    >>> td.hvp((x * x * x).sum(), x, td.asarray([1.0, 1.0])).tolist()
    [6.0, 12.0]
    """
    (gx,) = grad(y, [x], unused="zero")
    product: Tensor = functions.sum(gx * as_tensor(v))
    return grad(product, [x], unused="zero")[0]
