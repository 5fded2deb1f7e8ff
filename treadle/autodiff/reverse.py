"""Reverse mode: cotangents flow from results to what they were computed from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treadle.autodiff.tape import TWICE, twice
from treadle.autodiff.targets import Targets
from treadle.base.caches import Cache, cached
from treadle.base.dtypes import HALF, DType, float32, is_inexact, kind
from treadle.base.errors import GradientError, TreadleError
from treadle.base.options import current
from treadle.base.types import TupleType, Type, equal_shapes, has_names
from treadle.graph.leaves import (
    LITERAL,
    Argument,
    Cut,
    Leaf,
    bits_of,
    literal_node,
    zeros_of,
)
from treadle.graph.op import FLAT, Cotangents
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.tensor import Tensor, new_node, watchers
from treadle.graph.traversal import reach

if TYPE_CHECKING:
    from treadle.autodiff.expressions import Expressed


def pull(
    outputs: Sequence[Tensor], cotangents: Sequence[Tensor | None], targets: Targets
) -> dict[int, Tensor]:
    """The cotangent of each target the outputs depend on, by its position.

    What overflows op by op is derived as a whole, but for composites, whose own ops are
    meant as they are.
    """
    nodes = reach(outputs, targets.ends)
    whole = current().optimize and not targets.partial
    expressions = functions.expressions_in(nodes, targets.between) if whole else {}
    leads: set[int] = set()
    for node in nodes:
        if (
            targets.of(node)
            or targets.lost(node)
            or (not targets.ends(node) and any(x.serial in leads for x in node.inputs))
        ):
            leads.add(node.serial)
    result: dict[int, Tensor] = {}
    flat: dict[int, Tensor] = {}  # targets that are reached, with the derivative 0
    gathered: dict[int, Any] = {}
    for y, g in zip(outputs, cotangents, strict=True):
        if g is not None:
            _add(gathered, y, g)
    for node in reversed(nodes):
        if node.serial not in leads:
            continue
        g = gathered.pop(node.serial, None)
        if g is None:
            continue
        for k in targets.of(node):
            if g is FLAT:
                flat.setdefault(k, node)
            else:
                result[k] = g if k not in result else result[k] + g
        if targets.lost(node):
            raise cut_error(node)
        if node.inputs and not targets.ends(node):
            read, parts = _through(node, g, expressions.get(node.serial))
            for x, part in zip(read, parts, strict=True):
                if part is not None and x.serial in leads:
                    _add(gathered, x, part)
    return {**{k: zeros_like(x) for k, x in flat.items()}, **result}


def _through(
    node: Tensor, g: Any, expressed: Expressed | None
) -> tuple[Sequence[Tensor], Cotangents]:
    """The nodes that a cotangent is passed on to, and the cotangent of each."""
    if g is FLAT:
        return node.inputs, (FLAT,) * len(node.inputs)
    if expressed is not None:
        body, read = expressed[0], expressed[1].read
        parts = pullback(functions.inlined(body, read), g, read)
        # What the rules have cancelled still has a cotangent, though it is zero.
        pairs = zip(read, parts, strict=True)
        return read, tuple(zeros_like(x) if p is None else p for x, p in pairs)
    if isinstance(node.type, TupleType):
        g = tuple(g.get(k) for k in range(len(node.type)))
    try:
        return node.inputs, cotangents_of(node, g, node)
    except TreadleError as error:
        raise error.located(f"gradient of {node.op.name}", where=node.line) from None


def cotangents_of(node: Tensor, g: Any, y: Any) -> Cotangents:
    """The cotangents of the inputs by the op's rule, from that of each result.

    Names were resolved when the node was built, so rules see operands without: a
    cotangent gets those of its primal when it is fitted to it.
    """
    op, xs = node.op, node.inputs
    inside = op.family in _INSIDE and op.traits.tolerance != "E"
    if inside and op.closed and isinstance(node.type, Type):
        g, y, xs = _widened(g), _widened(y), tuple(map(_widened, xs))
    if op.family in _BY_BODIES or not any(has_names(x.type) for x in (node, *xs)):
        return op.vjp(g, y, *xs)
    plain: dict[int, Tensor] = {}  # what stands twice among the operands stays one
    for x in xs:
        if x.serial not in plain:
            plain[x.serial] = functions.unname(x) if has_names(x.type) else x
    operands = [plain[x.serial] for x in xs]
    if isinstance(node.type, TupleType):
        g = tuple(functions.unname(k) if k is not None else None for k in g)
        return op.vjp(g, op(*operands), *operands)
    return op.vjp(functions.unname(g), functions.unname(y), *operands)


def _widened(x: Tensor) -> Tensor:
    """A node in float32 if it is of 16-bit floats."""
    half = x.type.dtype in HALF
    return functions.astype(x, float32) if half else x


# What is computed in float32 for 16-bit floats: its derivative is, too.
_INSIDE = frozenset(("composite", "elementwise", "opaque", "reduction", "scan"))
# What has types of its own inside, or passes on what it is given.
_BY_BODIES = frozenset(("control", "derivative", "output", "state", "tape"))


def _add(gathered: dict[int, Any], x: Tensor, part: Any) -> None:
    """Add a cotangent to what x has; results of a tuple are kept by position."""
    if part is FLAT:
        gathered.setdefault(x.serial, FLAT)
        return
    if gathered.get(x.serial) is FLAT:
        del gathered[x.serial]
    if isinstance(part, tuple):
        known = gathered.setdefault(x.serial, {})
        for k, g in enumerate(part):
            if g is not None:
                known[k] = known[k] + g if k in known else g
        return
    g = fitted(part, x)
    before = gathered.get(x.serial)
    gathered[x.serial] = g if before is None else before + g


def fitted(g: Tensor, x: Tensor) -> Tensor:
    """A cotangent in the shape, dtype and axis order of its primal."""
    t = x.type
    if g.type.axes is not None and g.type.axes != t.axes:
        g = functions.by_name(g, t)
    if not equal_shapes(g.type.shape, t.shape):
        g = functions.sum_to(g, t.shape)
    if g.type.dtype != t.dtype:
        if kind(g.type.dtype) == "complex" and kind(t.dtype) == "float":
            g = functions.real(g)
        g = functions.astype(g, t.dtype)
    if g.type.axes != t.axes:
        g = functions.reshape(g, t.shape, axes=t.axes)
    return g


def cut_error(node: Tensor) -> GradientError:
    assert isinstance(node.op, Cut)
    if node.op.of == TWICE:
        return twice().located("gradient", repr(node.type), node.line)
    error = GradientError(
        f"the derivative reaches a value whose recipe ({node.op.of}) was let go",
        hint="a step forgets what it has used: build the expression again, or pass "
        "the value on with td.stop_gradient(x) to treat it as a constant",
    )
    return error.located("gradient", repr(node.type), node.line)


def seed_for(y: Tensor) -> Tensor:
    """The cotangent 1 of a scalar."""
    one = None if y.type.shape else one_of(y.type.dtype)
    if one is not None:
        return new_node(LITERAL, (), one[0], 3, one[1])
    if y.type.shape or not is_inexact(y.type.dtype):
        error = GradientError(
            f"a gradient is of a float scalar, this is {y.type}",
            hint="reduce it, e.g. with .sum(), or use td.vjp / td.jacobian",
        )
        raise error.located("gradient", repr(y.type), y.line)
    error = GradientError(
        f"a gradient is of a real scalar, this is {y.type}",
        hint="take td.real(y) or td.abs(y), or give a cotangent: td.vjp",
    )
    raise error.located("gradient", repr(y.type), y.line)


@cached(64)
def one_of(dtype: DType) -> tuple[Type, Any] | None:
    """The type and the value of a cotangent 1; None where that is of no real number."""
    if kind(dtype) != "float":
        return None
    node = literal_node(1, dtype)
    return node.type, node.stored


def zeros_like(x: Operand) -> Tensor:
    """A zero cotangent for x."""
    return zeros_of(x.type)


@provide
def pullback(y: Any, g: Any, xs: Sequence[Tensor]) -> Cotangents:
    """Cotangents of `xs` for a cotangent of `y` (tuples for several results)."""
    ys = list(y) if isinstance(y, (tuple, list)) else [y]
    gs = list(g) if isinstance(g, (tuple, list)) else [g]
    cotangents = pull(ys, gs, Targets(xs, partial=True))
    first = {x.serial: k for k, x in reversed(list(enumerate(xs)))}
    # A repeated input has one cotangent: it is given to the first of its positions.
    return tuple(
        cotangents.get(k) if first[x.serial] == k else None for k, x in enumerate(xs)
    )


# -- composites ------------------------------------------------------------------------

KNOWN = 1024  # composites on operands of some types
# Or how often, or that it is not done.
_pulled: Cache[Any, _Pulled | int | None] = Cache("gradients of composites", KNOWN)


Tidy = Callable[[Sequence[Tensor]], Sequence[Tensor]]


class _Tidying(threading.local):
    by: Tidy | None = None


_tidying = _Tidying()


@contextmanager
def tidied(by: Tidy | None) -> Iterator[None]:
    """Within, what is derived once is rewritten once too, by a function if given."""
    before, _tidying.by = _tidying.by, by
    try:
        yield
    finally:
        _tidying.by = before


@dataclass(frozen=True)
class _Pulled:
    """The gradient of a composite: nodes over arguments, in order, and cotangents."""

    arguments: tuple[Tensor, ...]
    nodes: list[Tensor]
    cotangents: Cotangents

    def on(self, operands: Sequence[Tensor]) -> Cotangents:
        """The same on operands: new nodes in the same order."""
        copies = {
            x.serial: operand
            for x, operand in zip(self.arguments, operands, strict=True)
        }
        for node in self.nodes:
            inputs = tuple([copies[x.serial] for x in node.inputs])
            copy = Tensor(node.op, inputs, node.type, node.stored)
            copy.mark = node.mark
            copies[node.serial] = copy
        cotangents = self.cotangents
        return tuple([None if g is None else copies[g.serial] for g in cotangents])


@provide
def pulled_through(op: Any, g: Any, xs: Sequence[Tensor]) -> Cotangents:
    """Cotangents of the operands of a composite, by its expansion.

    A graph that holds a cell a hundred times derives it once: what comes of operands
    of some types, of which some are the same and some are numbers, is kept from the
    second time on.
    """
    gs = g if isinstance(g, tuple) else (g,)
    operands = [x for x in (*xs, *gs) if x is not None]
    if watchers or any(has_names(x.type) for x in operands):
        return pullback(op.expand(*xs), g, xs)
    first: dict[int, int] = {}
    places = [first.setdefault(x.serial, len(first)) for x in operands]
    seeded = tuple([k for k, seed in enumerate(gs) if seed is not None])
    types = [(x.type, bits_of(x)) for x in operands]
    about = op, current().compilation, _tidying.by, len(xs), type(g) is tuple, seeded
    key = *about, *places, *types
    known = _pulled.get(key, 0)
    if known == 1:
        known = _pulled[key] = _pull_apart(op, g, xs, operands)
    elif known == 0:
        _pulled[key] = 1
    if isinstance(known, _Pulled):
        return known.on(operands)
    return pullback(op.expand(*xs), g, xs)


def _pull_apart(
    op: Any, g: Any, xs: Sequence[Tensor], operands: Sequence[Tensor]
) -> _Pulled | None:
    """The gradient of a composite over arguments; None where it is more than ops."""
    argument_of: dict[int, Tensor] = {}
    for x in operands:
        if x.serial not in argument_of:
            bare = Tensor(Argument(len(argument_of)), (), x.type)
            argument_of[x.serial] = x if x.op is LITERAL else bare
    inner = [argument_of[x.serial] for x in xs]
    gs = g if isinstance(g, tuple) else (g,)
    seeds = [None if k is None else argument_of[k.serial] for k in gs]
    try:
        y = op.expand(*inner)
        cotangents = pullback(y, seeds if isinstance(g, tuple) else seeds[0], inner)
        if _tidying.by is not None:
            fresh = iter(_tidying.by([c for c in cotangents if c is not None]))
            cotangents = tuple(None if c is None else next(fresh) for c in cotangents)
    except TreadleError:  # told with the operands themselves
        return None
    arguments = tuple([argument_of[x.serial] for x in operands])
    known = {x.serial for x in arguments}
    reached = reach([c for c in cotangents if c is not None])
    nodes = [x for x in reached if x.serial not in known]
    plain = all(x.op is LITERAL or _is_plain(x) for x in nodes)
    return _Pulled(arguments, nodes, cotangents) if plain else None


def _is_plain(node: Tensor) -> bool:
    """Whether a node is as good as any that is made of the same op."""
    op = node.op
    if node.stored is not None or isinstance(op, Leaf) or op.traits.effect:
        return False
    return op.family == "output" or op.family not in _BY_BODIES
