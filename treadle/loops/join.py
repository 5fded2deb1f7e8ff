"""Many arrays joined into one: each is copied to where it belongs.

Few are one expression that chooses among them, and take part in what is around. With
each operand more that costs a load and a choice for every element.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Kernel, KernelArgument, Load, Store
from treadle.loops.lower import Strides, placed
from treadle.ops.join import Concat


def _joined(node: Tensor, strides: Strides) -> Kernels:
    axis = node.op.axis  # type: ignore[attr-defined]
    kernels: Kernels = []
    start = 0
    for x in node.inputs:
        axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(x.type.shape)]
        place = [Index.of(a) for a in axes]
        target = list(place)
        target[axis] = place[axis] + start
        start += x.type.shape[axis]
        if not x.type.size:
            continue
        load = Load(0, placed(place, strides(x)), x.type.dtype)
        store = Store(1, placed(target, strides(node)), load)
        loops = nested([a for a in axes if a.extent != 1], (store,), "parallel")
        arguments = KernelArgument(x.type.dtype), KernelArgument(node.type.dtype, True)
        kernels.append((Kernel("join", arguments, loops), [x, node]))
    return kernels


JOINS: dict[type[Op], Callable[[Tensor, Strides], Kernels]] = {Concat: _joined}
