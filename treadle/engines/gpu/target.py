"""The target of programs for a device: what its kernels can compute."""

from __future__ import annotations

from typing import Any

from treadle.base.dtypes import kind
from treadle.base.types import TupleType
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.native.translation.translate import Target, supported
from treadle.graph.tensor import Tensor
from treadle.loops.lower import wide
from treadle.ops.contract import Contract
from treadle.ops.families import Reduction


def target_of(driver: DeviceDriver) -> Target:
    """The target of a driver's device."""
    device = driver.device

    def computes(node: Tensor) -> bool:
        """Return True if kernels of the device can compute a node."""
        if isinstance(node.op, Contract) and kind(node.type.dtype) != "float":
            return False
        dtypes = [d for x in (node, *node.inputs) for d in dtypes_of(x)]
        if isinstance(node.op, Reduction):
            dtypes += [wide(d) for d in dtypes_of(node)]
        return all(d.name in device.dtypes for d in dtypes)

    return Target(
        (device.api, device.name),
        device.vector_bytes,
        lambda node: supported(node) and computes(node),
        computes,
    )


def host_target(driver: DeviceDriver) -> Target:
    """The target of graphs of which a kernel is not supported: all steps by NumPy."""
    device = driver.device
    key = device.api, device.name, "by NumPy"
    return Target(key, device.vector_bytes, lambda node: False, lambda node: False)


def dtypes_of(node: Tensor) -> list[Any]:
    """The dtypes of a node's values."""
    types = node.type if isinstance(node.type, TupleType) else (node.type,)
    return [t.dtype for t in types]
