"""Collectives (all-reduce, all-gather, ...) as nodes of the graph.

They have an effect, which is that other ranks wait: in a run each is carried out once,
in the order in which it was written, and is not merged with an equal one. What no run
asks for is not carried out, so that all ranks have to ask for the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import is_inexact
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import Type
from treadle.distributed import fixed
from treadle.distributed.communicator import Communicator
from treadle.distributed.fixed import REDUCTIONS
from treadle.distributed.world import world
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.origin import capture
from treadle.graph.tensor import Tensor
from treadle.ops.families import Family


class Collective(Family):
    """A collective: an op that all ranks take part in, with one operand each."""

    __slots__ = ()
    family = "opaque"
    arity = 1
    together = True  # all ranks take part

    def infer(self, *types: Type) -> Type:
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return self.begin(*arrays)()

    def begin(self, *arrays: Any) -> Callable[[], Any]:
        x = np.array(arrays[0], order="C")

        def exchange(comm: Communicator) -> Array:
            comm.name_call(self.name, self.together)
            try:
                return self.done(comm, x)
            finally:
                comm.name_call("")

        comm = world()
        if comm.size == 1:  # what it sends, it receives itself
            received = exchange(comm)
            return lambda: received
        return comm.channel("treadle-collectives").begin(exchange, capture())

    def done(self, comm: Communicator, x: Array) -> Array:
        """The result on this rank; x may be written over."""
        raise NotImplementedError

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return None  # ranks may have other numbers of rows


@op(effect="each", repeatable=False, waits=True, tolerance="R")
class AllReduce(Collective):
    """The reduction over all ranks, on all ranks."""

    reduction: str = "sum"

    def done(self, comm: Communicator, x: Array) -> Array:
        return fixed.all_reduce_over(comm, x, self.reduction)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if self.reduction in ("sum", "mean"):
            return (AllReduce(self.reduction)(g),)
        total, hits = AllReduce("sum")(g), (xs[0] == y).astype(g.type.dtype)
        return (total * hits / AllReduce("sum")(hits),)


@op(effect="each", repeatable=False, waits=True, tolerance="E")
class AllGather(Collective):
    """All-gather: operands of all `size` ranks joined along the first axis."""

    size: int

    def infer(self, *types: Type) -> Type:
        return _of_rows(types[0], self.size * _rows_of(types[0]))

    def done(self, comm: Communicator, x: Array) -> Array:
        return comm.all_gather(x).reshape(self.size * x.shape[0], *x.shape[1:])

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (ReduceScatter(self.size)(g),)


@op(effect="each", repeatable=False, waits=True, tolerance="R")
class ReduceScatter(Collective):
    """The sum over `size` ranks, of which each gets its part of the first axis."""

    size: int

    def infer(self, *types: Type) -> Type:
        return _of_rows(types[0], _parted(types[0], self.size) // self.size)

    def done(self, comm: Communicator, x: Array) -> Array:
        return fixed.reduce_scatter(comm, _in_parts(x, self.size))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (AllGather(self.size)(g),)


@op(effect="each", repeatable=False, waits=True, tolerance="E")
class AllToAll(Collective):
    """Part k of the first axis goes to rank k; what comes from it takes its place."""

    size: int

    def infer(self, *types: Type) -> Type:
        _parted(types[0], self.size)
        return types[0]

    def done(self, comm: Communicator, x: Array) -> Array:
        return comm.all_to_all(_in_parts(x, self.size)).reshape(x.shape)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (AllToAll(self.size)(g),)


@op(effect="each", repeatable=False, waits=True, tolerance="E")
class FromRoot(Collective):
    """Broadcast: the operand of one rank, on all ranks."""

    root: int

    def done(self, comm: Communicator, x: Array) -> Array:
        return comm.broadcast(x, self.root)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (ToRoot(self.root)(g),)


@op(effect="each", repeatable=False, waits=True, tolerance="R")
class ToRoot(Collective):
    """The sum over all ranks on one of them, zeros on the others."""

    root: int

    def done(self, comm: Communicator, x: Array) -> Array:
        total = fixed.all_reduce_over(comm, x)
        return total if comm.rank == self.root else np.zeros_like(total)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (FromRoot(self.root)(g),)


@op(effect="each", repeatable=False, waits=True, tolerance="E")
class Exchange(Collective):
    """The operand goes to one rank; the result, of its type, comes from another one.

    Without a source it is zeros. Its cotangent goes the way back.
    """

    to: int | None
    source: int | None
    together = False

    def done(self, comm: Communicator, x: Array) -> Array:
        if self.to is not None:
            comm.send(x, self.to)
        return np.zeros_like(x) if self.source is None else comm.receive(x, self.source)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Exchange(self.source, self.to)(g),)


def _rows_of(t: Type) -> int:
    """The extent of the first axis."""
    if not t.shape:
        raise ShapeError(f"{t} has no first axis", hint="give it one: x.reshape(1)")
    return t.shape[0]


def _parted(t: Type, size: int) -> int:
    """The extent of the first axis, of which each rank has as many rows."""
    count = _rows_of(t)
    if count % size:
        raise ShapeError(f"{count} rows are not parts for {size} ranks")
    return count


def _of_rows(t: Type, count: int) -> Type:
    """A type with another extent of its first axis."""
    return Type((count, *t.shape[1:]), t.dtype, t.axes)


def _in_parts(x: Array, size: int) -> Array:
    """An array as one part for each rank."""
    return x.reshape(size, x.shape[0] // size, *x.shape[1:])


def all_reduce(x: Any, reduction: str = "sum") -> Tensor:
    """The sum over all ranks (or mean, max, min), on all ranks: of `x`'s type.

    Sums are made in a fixed order, so that all ranks get the same bits. A rank's loss
    counts once: the gradient by `x` is the sum of all ranks' cotangents.

    >>> td.distributed.all_reduce(td.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    if reduction not in REDUCTIONS:
        raise ArgumentError(
            f"a reduction is one of {', '.join(REDUCTIONS)}, not {reduction!r}"
        )
    node = as_tensor(x)
    if reduction == "mean" and not is_inexact(node.type.dtype):
        raise ArgumentError(f"a mean is of floats, not of {node.type}")
    return AllReduce(reduction)(node)


def all_gather(x: Any) -> Tensor:
    """The tensors of all ranks joined along the first axis, on all ranks.

    >>> td.distributed.all_gather(td.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return AllGather(world().size)(as_tensor(x))


def reduce_scatter(x: Any) -> Tensor:
    """The sum over all ranks, of which rank r gets part r of the first axis.

    >>> td.distributed.reduce_scatter(td.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return ReduceScatter(world().size)(as_tensor(x))


def all_to_all(x: Any) -> Tensor:
    """Part k of the first axis goes to rank k; what comes from there takes its place.

    >>> td.distributed.all_to_all(td.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return AllToAll(world().size)(as_tensor(x))


def broadcast(x: Any, root: int = 0) -> Tensor:
    """The tensor of rank `root`, on all ranks; others give any of the same type.

    >>> td.distributed.broadcast(td.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return FromRoot(world().check_rank(root, "root"))(as_tensor(x))


def reduce(x: Any, root: int = 0) -> Tensor:
    """The sum over all ranks on rank `root`; zeros on the others.

    >>> td.distributed.reduce(td.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return ToRoot(world().check_rank(root, "root"))(as_tensor(x))


def send(x: Any, to: int) -> Tensor:
    """Send `x` to a rank, which calls `recv`: a scalar 0 that stands for having sent.

    Add it to the loss, or ask for it together with what is received: then it is sent,
    and the gradient comes back the same way.

    >>> sent = td.distributed.send(td.asarray([1.0, 2.0]), to=0)
    >>> float(sent), td.distributed.recv(td.zeros(2), source=0).tolist()
    (0.0, [1.0, 2.0])
    """
    done = Exchange(world().check_rank(to, "to"), None)(as_tensor(x))
    return done.sum()


def recv(like: Any, source: int) -> Tensor:
    """A received tensor of the shape and dtype of `like`, sent by a rank.

    Derivatives go back to the sender where `like` depends on what is trained, as a
    product of a parameter with 0 does.
    """
    return Exchange(None, world().check_rank(source, "source"))(as_tensor(like))
