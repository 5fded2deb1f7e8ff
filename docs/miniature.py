"""The core of Treadle in about a hundred lines: nodes, derivatives, values, versions.

Read it from top to bottom before the real one; `python docs/miniature.py` runs it.
"""

import math
from dataclasses import dataclass
from itertools import count

serials = count()


class Node:
    """An op applied to nodes. Nothing is computed when it is made."""

    def __init__(self, op, *inputs, value=None):
        self.op, self.inputs, self.value = op, inputs, value
        self.serial = next(serials)  # sorting by it is a topological order

    def __add__(self, other):
        return Node(Add(), self, node(other))

    def __mul__(self, other):
        return Node(Multiply(), self, node(other))

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -node(other)

    __radd__, __rmul__ = __add__, __mul__


# An op is data with two rules: its meaning, and the cotangents of its inputs, which are
# nodes again, so derivatives can be derived.
@dataclass(frozen=True)
class Leaf:
    pass


@dataclass(frozen=True)
class Add:
    def meaning(self, x, y):
        return x + y

    def vjp(self, g, x, y):
        return g, g


@dataclass(frozen=True)
class Multiply:
    def meaning(self, x, y):
        return x * y

    def vjp(self, g, x, y):
        return g * y, g * x


@dataclass(frozen=True)
class Sin:
    def meaning(self, x):
        return math.sin(x)

    def vjp(self, g, x):
        return (g * cos(x),)


@dataclass(frozen=True)
class Cos:
    def meaning(self, x):
        return math.cos(x)

    def vjp(self, g, x):
        return (-(g * sin(x)),)


def sin(x):
    return Node(Sin(), x)


def cos(x):
    return Node(Cos(), x)


def node(x):
    return x if isinstance(x, Node) else Node(Leaf(), value=float(x))


def reach(root):
    """All nodes below the root in creation order, without recursion."""
    seen, stack = {}, [root]
    while stack:
        n = stack.pop()
        if n.serial not in seen:
            seen[n.serial] = n
            stack.extend(n.inputs)
    return [seen[s] for s in sorted(seen)]


def evaluate(root):
    """Each node once, inputs first; a value stays with its node."""
    for n in reach(root):
        if n.value is None:
            n.value = n.op.meaning(*[x.value for x in n.inputs])
    return root.value


def grad(root, wanted):
    """Cotangents from the newest node to the oldest, summed over all uses."""
    gathered = {root.serial: node(1.0)}
    for n in reversed(reach(root)):
        if n.inputs and n.serial in gathered:
            gs = n.op.vjp(gathered[n.serial], *n.inputs)
            for x, g in zip(n.inputs, gs, strict=True):
                known = gathered.get(x.serial)
                gathered[x.serial] = g if known is None else known + g
    return gathered[wanted.serial]


class Variable:
    """State at the rim: assigning makes a new version, old expressions keep theirs."""

    def __init__(self, value):
        self.version = node(value)

    def assign(self, expression):
        self.version = node(evaluate(expression))  # a leaf: no recipe, no derivative


if __name__ == "__main__":
    x, y = Variable(2.0), node(3.0)
    z = x.version * y + sin(x.version)
    dz = grad(z, x.version)
    ddz = grad(dz, x.version)
    print(f"z = {evaluate(z):.6f}, z' = {evaluate(dz):.6f}, z'' = {evaluate(ddz):.6f}")
    x.assign(x.version - dz * 0.005)  # one step of descent on |6 - z|, as z > 6
    print(f"x = {x.version.value:.6f}")
