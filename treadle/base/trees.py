"""Nested containers: a tree of lists, tuples and dicts as leaves and a structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Structure = Any


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves from left to right (dicts by insertion), and how they nest.

    >>> flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []

    def visit(node: Any) -> Structure:
        if isinstance(node, dict):
            return dict, tuple(node), tuple(visit(v) for v in node.values())
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return type(node), None, tuple(visit(v) for v in node)
        if isinstance(node, (list, tuple)):
            kind = list if isinstance(node, list) else tuple
            return kind, None, tuple(visit(v) for v in node)
        if node is None:
            return None
        leaves.append(node)
        return "leaf"

    return leaves, visit(tree)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of `structure` with these leaves: the inverse of `flatten`.

    >>> unflatten(flatten({"a": 1, "b": (2,)})[1], [5, 6])
    {'a': 5, 'b': (6,)}
    """
    rest = iter(leaves)

    def build(node: Structure) -> Any:
        if node is None:
            return None
        if node == "leaf":
            return next(rest)
        kind, keys, children = node
        values = [build(child) for child in children]
        if kind is dict:
            return dict(zip(keys, values, strict=True))
        return kind(*values) if hasattr(kind, "_fields") else kind(values)

    return build(structure)
