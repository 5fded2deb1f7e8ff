"""ListOps: nested operations on digits, whose value a network has to find.

Nangia and Bowman (2018), ListOps: A diagnostic dataset for latent tree learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.data.tree import Tree


def _median(values: Sequence[int]) -> int:
    """The middle value; of two the mean, rounded down."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


_OPERATIONS: dict[str, Callable[[Sequence[int]], int]] = {
    "MAX": max,
    "MIN": min,
    "MED": _median,
    "SM": lambda values: sum(values) % 10,
}
_NAMES = tuple(_OPERATIONS)
_DIGITS = tuple("0123456789")


def generate_listops(
    count: int,
    seed: int = 0,
    *,
    nesting: float = 0.25,
    max_arguments: int = 5,
    max_depth: int = 20,
) -> list[Tree]:
    """Trees of MAX, MIN, MED (median) and SM (sum modulo 10) over digits.

    A node's label is its value; its first child names the operation. An operation has
    two to `max_arguments` arguments, each an operation with probability `nesting`.
    Tree k depends on the seed and k alone, on any machine.

    >>> for tree in generate_listops(2, seed=3, max_arguments=3):
    ...     print(tree)
    (1 (SM SM) (6 6) (9 9) (6 (MED MED) (5 5) (7 7)))
    (9 (MAX MAX) (4 4) (9 9) (5 5))
    """
    if not isinstance(count, int) or count < 0:
        raise ArgumentError(f"count is a number of trees, not {count!r}")
    if not isinstance(max_arguments, int) or max_arguments < 2:
        raise ArgumentError(f"max_arguments is at least 2, not {max_arguments}")
    if not isinstance(max_depth, int) or max_depth < 1:
        raise ArgumentError(f"max_depth is at least 1, not {max_depth}")
    if not 0 <= nesting <= 2 / (2 + max_arguments):
        raise ArgumentError(
            f"nesting is from 0 to 2 / (2 + max_arguments), not {nesting}",
            hint="above, an operation holds more than one other on average: no end",
        )
    return [
        _tree(_bits(seed, number), nesting, max_arguments, max_depth)
        for number in range(count)
    ]


def listops_value(tree: Tree) -> int:
    """The value of a tree, found from its operations and digits alone.

    >>> listops_value(Tree.parse("(0 (MED MED) (0 (SM SM) (9 9) (4 4) (7 7)) (1 1))"))
    0
    """
    values: list[int] = []
    for node in tree.nodes():
        if node.word in _OPERATIONS:
            continue
        if node.word is not None:
            if node.word not in _DIGITS:
                raise ArgumentError(f"{node.word!r} is no digit and no operation")
            values.append(int(node.word))
            continue
        first, *rest = node.children
        name, arguments = first.word, len(rest)
        if name not in _OPERATIONS or any(c.word in _OPERATIONS for c in rest):
            raise ArgumentError(
                f"under {node.label!r} there is not one operation, in front",
                hint="a node is (value (MAX MAX) argument ...)",
            )
        if not arguments:
            raise ArgumentError(f"{name} under {node.label!r} has no argument")
        result = _OPERATIONS[name](values[-arguments:])
        values[-arguments:] = [result]
    if len(values) != 1:
        raise ArgumentError("an operation alone has no value")
    return values[0]


def _bits(seed: int, number: int) -> Iterator[int]:
    """Random 64-bit numbers of tree `number`; NumPy keeps raw ones as they are."""
    key = np.array([seed % 2**64, number], np.uint64)
    source = np.random.Philox(key=key)
    while True:
        yield from source.random_raw(64).tolist()


class _Operation:
    """An operation whose arguments are not all made yet."""

    def __init__(self, bits: Iterator[int], max_arguments: int) -> None:
        self.name = _NAMES[next(bits) % len(_NAMES)]
        self.missing = 2 + next(bits) % (max_arguments - 1)
        self.children = [Tree(self.name, word=self.name)]

    def closed(self) -> Tree:
        values = [int(child.label) for child in self.children[1:]]
        return Tree(str(_OPERATIONS[self.name](values)), tuple(self.children))


def _tree(
    bits: Iterator[int], nesting: float, max_arguments: int, max_depth: int
) -> Tree:
    stack = [_Operation(bits, max_arguments)]
    while True:
        top = stack[-1]
        if not top.missing:
            stack.pop()
            if not stack:
                return top.closed()
            stack[-1].children.append(top.closed())
            continue
        top.missing -= 1
        if len(stack) < max_depth and next(bits) < nesting * 2**64:
            stack.append(_Operation(bits, max_arguments))
        else:
            digit = str(next(bits) % 10)
            top.children.append(Tree(digit, word=digit))
