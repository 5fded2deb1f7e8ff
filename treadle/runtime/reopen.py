"""Quotients by evaluated values that underflow: their divisors are computed again.

A loss asked for first and its gradient after it are two programs. The second finds the
probability p as a value, perhaps 0, and u / p is lost; seen as a softmax of logits, the
quotient cancels (see rewrite/rules/products.py). So where an evaluated node of such a
kind is divided by, what divides is run on its recipe instead, from the logits, which
the first run has kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.graph.leaves import Constant
from treadle.graph.tensor import Tensor
from treadle.ops.activation import Sigmoid
from treadle.ops.elementary import Exp
from treadle.ops.elementwise import Add, Divide, Negative, Subtract
from treadle.ops.movement import BroadcastTo, Reshape
from treadle.ops.power import Reciprocal
from treadle.ops.reduce import Sum
from treadle.ops.softmax import Softmax

__all__ = ["bases", "reopened"]

_BASES = (Exp, Softmax, Sigmoid)  # never 0 in mathematics
_THROUGH = (Sum, Reshape, BroadcastTo, Negative, Reciprocal, Divide, Add, Subtract)
DEPTH = 6


def is_fragile(node: Tensor, depth: int = DEPTH) -> bool:
    """Whether a node is made of exponentials by sums and quotients alone."""
    kind = type(node.op)
    if kind in _BASES:
        return True
    if not depth or not node.inputs:
        return False
    if kind in _THROUGH:
        return all(is_fragile(x, depth - 1) or _is_number(x) for x in node.inputs)
    return False


def _is_number(x: Tensor) -> bool:
    return isinstance(x.op, Constant) and not x.type.shape


def bases(kept: Iterable[Tensor], among: Sequence[Tensor]) -> set[int]:
    """What fragile nodes that a run keeps are made from, by serial, to be kept too."""
    found: set[int] = set()
    stack = [n for n in kept if n.inputs and is_fragile(n)]
    if not stack:
        return found
    here = {n.serial for n in among if n.stored is None}
    while stack:
        for x in stack.pop().inputs:
            if x.serial in here and x.serial not in found:
                if is_fragile(x):
                    stack.append(x)
                else:
                    found.add(x.serial)
    return found


def reopened(nodes: Sequence[Tensor]) -> dict[int, Tensor]:
    """Copies, by serial, of the pending nodes that read an evaluated fragile divisor.

    Mostly there are none. A copy reads the divisor by its recipe.
    """
    known = {n.serial: n for n in nodes if n.stored is not None and n.inputs}
    if not known or not any(_divides(n) in known for n in nodes):
        return {}
    opened: dict[int, Tensor] = {}
    divisors = {_divides(n) for n in nodes}
    stack = [n for s, n in known.items() if s in divisors and is_fragile(n)]
    if not stack:
        return {}
    for n in known.values():
        if is_fragile(n):
            _open(n, opened)
    made = dict(opened)
    for node in nodes:
        if node.stored is None and any(x.serial in made for x in node.inputs):
            inputs = tuple(made.get(x.serial, x) for x in node.inputs)
            made[node.serial] = _copied(node, inputs)
    return made


def _divides(node: Tensor) -> int:
    """The serial of what a node divides by, or -1."""
    if node.stored is None and type(node.op) in (Divide, Reciprocal):
        return node.inputs[-1].serial
    return -1


def _open(root: Tensor, opened: dict[int, Tensor]) -> None:
    """The recipe of a fragile node, down to what is not fragile."""
    if root.serial in opened:
        return
    below = [x for x in root.inputs if x.inputs and is_fragile(x)]
    for x in below:
        _open(x, opened)
    inputs = tuple(opened.get(x.serial, x) for x in root.inputs)
    opened[root.serial] = _copied(root, inputs)


def _copied(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    made = Tensor(node.op, inputs, node.type)
    made.origin = node.origin
    return made
