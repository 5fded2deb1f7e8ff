"""Samples of the ops of distributed.collectives, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError
from treadle.distributed.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    Exchange,
    FromRoot,
    ReduceScatter,
    ToRoot,
    all_reduce,
    broadcast,
)
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input


@mistakes(Collective)
def collective_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [
        Mistake(lambda: all_reduce(x, "product"), ArgumentError, "sum, mean, max"),
        Mistake(lambda: broadcast(x, 7), ArgumentError, "from 0 to"),
    ]


@samples(AllReduce)
def all_reduce_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls("sum"), (Input((2, 3)),)),
        Sample(cls("mean"), (Input((5,)),)),
        Sample(cls("max"), (Input((0, 3)),)),
        Sample(cls("min"), (Input(()),)),
    ]


@samples(AllGather)
def all_gather_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(1), (Input((2, 3)),)), Sample(cls(1), (Input((1,)),))]


@samples(ReduceScatter)
def reduce_scatter_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(1), (Input((2, 3)),)), Sample(cls(1), (Input((1,)),))]


@samples(AllToAll)
def all_to_all_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(1), (Input((2, 3)),)), Sample(cls(1), (Input((1,)),))]


@samples(FromRoot)
def from_root_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(0), (Input((2, 3)),)), Sample(cls(0), (Input(()),))]


@samples(ToRoot)
def to_root_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(0), (Input((2, 3)),)), Sample(cls(0), (Input(()),))]


@samples(Exchange)
def exchange_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(0, 0), (Input((2, 3)),)), Sample(cls(0, 0), (Input(()),))]
