"""SyncBatchNorm: batch normalization by what all ranks have at once."""

from __future__ import annotations

from typing import TypeVar

from treadle.base.dtypes import accumulator
from treadle.base.errors import ShapeError
from treadle.distributed.collectives import all_gather
from treadle.distributed.world import world
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.nn.module import Module
from treadle.nn.normalization import BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d
from treadle.nn.quantized import replaced
from treadle.ops.create import zeros

M = TypeVar("M", bound=Module)
_KINDS = BatchNorm1d, BatchNorm2d, BatchNorm3d


class SyncBatchNorm(BatchNorm, ranks=(2, 3, 4, 5)):
    """Batch normalization of (n, channels, ...) by the statistics of all ranks' batches
    together, weighted by their sizes, as torch's. In use, and on one rank, BatchNorm.

    Every rank calls it in training as often as the others: which shards meet follows
    from the number of ranks, and so do the bits. `convert_sync_batchnorm(model)` puts
    one in the place of every BatchNorm.

    >>> layer = td.distributed.SyncBatchNorm(1)
    >>> layer([[1.0], [3.0]]).numpy().round(3).tolist()
    [[-1.0], [1.0]]
    """

    @classmethod
    def convert_sync_batchnorm(cls, module: M) -> M | SyncBatchNorm:
        """A module whose BatchNorms are SyncBatchNorms of the same parameters and
        statistics; it is changed, unless it is one itself.

        >>> net = td.nn.Sequential(td.nn.Linear(2, 3), td.nn.BatchNorm1d(3))
        >>> td.distributed.SyncBatchNorm.convert_sync_batchnorm(net)[1]
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
        """
        if isinstance(module, _KINDS):
            return cls._of(module)
        for kind in _KINDS:
            replaced(module, kind, lambda path, layer: cls._of(layer))
        return module

    @classmethod
    def _of(cls, layer: BatchNorm) -> SyncBatchNorm:
        """The same layer, over all ranks."""
        new = cls(
            layer.num_features, layer.eps, layer.momentum,
            layer.weight is not None, layer.track_running_stats,
            bias=layer.bias is not None,
        )  # fmt: skip
        for name, value in vars(layer).items():
            if isinstance(value, Variable):
                setattr(new, name, value)
        return new.train(layer.training)

    def shared_statistics(
        self, x: Tensor, axes: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        if world().size == 1:
            return None
        if not x.size:  # its gradient would ask for fewer collectives than others'
            raise ShapeError(
                f"{x.type} is no batch, of which each rank has one",
                hint="leave out the same steps on all ranks",
            ).located("SyncBatchNorm")
        wide = x.astype(accumulator(x.dtype))
        mean = wide.mean(axes)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        square = functions.square(wide - mean.reshape(shape)).sum(axes)
        count = zeros(mean.shape, wide.dtype) + float(x.size // self.num_features)
        # [ranks, 3, channels]; Chan, Golub and LeVeque, Updating formulae and a
        # pairwise algorithm for computing sample variances, 1979.
        every = all_gather(functions.stack([mean, square, count])[None])
        means, squares, counts = every[:, 0], every[:, 1], every[:, 2]
        total = counts.sum(0)
        mean = (means * counts).sum(0) / total
        spread = (squares + counts * functions.square(means - mean)).sum(0)
        return mean, spread / total, spread / functions.maximum(total - 1.0, 1.0)
