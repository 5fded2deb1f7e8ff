"""Nested containers: a tree of lists, tuples and dicts as leaves and a structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Structure = Any


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves from left to right (dicts by insertion), and how they nest.

    >>> flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _visit(tree, leaves)


# Functions of their own: closures that call themselves would keep leaves in a cycle.
def _visit(node: Any, leaves: list[Any]) -> Structure:
    """The structure of a tree, whose leaves are appended to `leaves`."""
    if not isinstance(node, (list, tuple, dict)):  # most are leaves
        if node is None:
            return None
        leaves.append(node)
        return "leaf"
    if isinstance(node, dict):
        return dict, tuple(node), tuple([_visit(v, leaves) for v in node.values()])
    children = tuple([_visit(v, leaves) for v in node])
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return type(node), None, children
    return list if isinstance(node, list) else tuple, None, children


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of `structure` with these leaves: the inverse of `flatten`.

    >>> unflatten(flatten({"a": 1, "b": (2,)})[1], [5, 6])
    {'a': 5, 'b': (6,)}
    """
    return _build(structure, iter(leaves))


def _build(node: Structure, rest: Iterator[Any]) -> Any:
    """The tree of a structure, with the next leaves of `rest`."""
    if node is None:
        return None
    if node == "leaf":
        return next(rest)
    kind, keys, children = node
    values = [_build(child, rest) for child in children]
    if kind is dict:
        return dict(zip(keys, values, strict=True))
    return kind(*values) if hasattr(kind, "_fields") else kind(values)
