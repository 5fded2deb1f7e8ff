"""The driver of OpenCL devices: one in-order queue, buffers, programs from text."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.extras import extra
from treadle.engines.gpu.driver import (
    NARROW,
    STEP,
    Allocation,
    CompilingDriver,
    DeviceTraits,
    Place,
)
from treadle.engines.gpu.opencl.builder import OpenClBuilder, program_of
from treadle.engines.gpu.work import Work
from treadle.engines.native.system.host import host


class OpenClKernel:
    """A kernel, the items of its groups, and a maker of more of it, each of which has
    arguments of its own; until it is built, its text."""

    def __init__(self, builder: OpenClBuilder) -> None:
        self.builder: OpenClBuilder | None = builder
        self.items = builder.work.items
        self.kernel: Any = None
        self.another: Any = None


class OpenClLaunch:
    """A launch with its arguments, which a kernel of its own has from the second time
    on: most launches come again in the same memory."""

    __slots__ = ("_arguments", "_driver", "_entry", "_has_run", "_kernel", "_shape")

    def __init__(
        self,
        driver: OpenClDriver,
        entry: OpenClKernel,
        groups: int,
        arguments: Sequence[Any],
    ) -> None:
        self._driver, self._entry, self._arguments = driver, entry, arguments
        self._shape = (groups * entry.items,), (entry.items,)
        self._kernel: Any = None
        self._has_run = False

    def __call__(self) -> None:
        driver, kernel = self._driver, self._kernel
        if kernel is None:
            kernel = driver.kernel(self._entry, self._has_run)
            kernel.set_args(*self._arguments)
            self._kernel = kernel if self._has_run else None
            self._has_run = True
        driver.cl.enqueue_nd_range_kernel(driver.queue, kernel, *self._shape)


def devices() -> list[tuple[Any, str]]:
    """The devices there are, those that are no processors first, and their names."""
    cl = extra("pyopencl", "opencl")
    try:
        listed = [d for p in cl.get_platforms() for d in p.get_devices()]
    except cl.Error:  # no platform is there
        return []
    listed.sort(key=lambda d: bool(d.type & cl.device_type.CPU))
    return [(d, d.name.strip()) for d in listed]


class OpenClDriver(CompilingDriver):
    """One OpenCL device, as `DeviceDriver` has it."""

    def __init__(self, handle: Any) -> None:
        self.cl = cl = extra("pyopencl", "opencl")
        most = handle.max_mem_alloc_size
        super().__init__("OpenCL", most, (cl.Error,), cl.MemoryError)
        with self._refusals():
            self._context = cl.Context([handle])
            self.queue = cl.CommandQueue(self._context)
        has_double = bool(handle.double_fp_config)
        config = handle.single_fp_config
        exact = config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        self._options = ["-cl-fp32-correctly-rounded-divide-sqrt"] if exact else []
        self._pending: list[OpenClKernel] = []
        is_cpu = bool(handle.type & cl.device_type.CPU)
        self.device = DeviceTraits(
            name=handle.name.strip(),
            api="opencl",
            vector_bytes=host().vector_bytes if is_cpu else STEP,
            buffers=64,
            alignment=64,
            dtypes=NARROW.union(["int64", "uint64"], ["float64"] if has_double else []),
        )

    # -- memory ----------------------------------------------------------------------

    def allocate(self, bytes: int) -> Allocation:
        self._check(bytes)
        flags = self.cl.mem_flags.READ_WRITE
        with self._refusals():
            return Allocation(self.cl.Buffer(self._context, flags, size=bytes), bytes)

    def free(self, memory: Allocation) -> None:
        memory.handle.release()

    def upload(self, array: Array, memory: Allocation, offset: int) -> None:
        with self._refusals():
            self.cl.enqueue_copy(
                self.queue, memory.handle, array, dst_offset=offset, is_blocking=True
            )

    def download(self, memory: Allocation, offset: int, array: Array) -> None:
        with self._refusals():
            self.cl.enqueue_copy(
                self.queue, array, memory.handle, src_offset=offset, is_blocking=True
            )

    def copy(self, source: Place, target: Place, bytes: int) -> None:
        (x, begin), (y, end) = source, target
        how = {"src_offset": begin, "dst_offset": end, "byte_count": bytes}
        with self._refusals():
            self.cl.enqueue_copy(self.queue, y.handle, x.handle, **how)

    def fill(self, place: Place, bytes: int, byte: int) -> None:
        memory, start = place
        rest = memory.handle, np.uint8(byte), start, bytes
        with self._refusals():
            self.cl.enqueue_fill_buffer(self.queue, *rest)

    # -- kernels ---------------------------------------------------------------------

    def _compiled(self, work: Work) -> OpenClKernel:
        entry = OpenClKernel(_written(work))
        self._pending.append(entry)
        return entry

    def _build(self, wanted: OpenClKernel) -> None:
        """Build all kernels that no launch has asked for yet as one program, which
        takes hardly longer than one; where that is refused, the one that is wanted."""
        entries, self._pending = dict.fromkeys([*self._pending, wanted]), []
        try:
            self._build_together([*entries])
        except self._raised:
            self._build_together([wanted])

    def _build_together(self, entries: Sequence[OpenClKernel]) -> None:
        builders = [x.builder for x in entries if x.builder is not None]
        program = self.cl.Program(self._context, program_of(builders))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of compilers, about their own text
            built = program.build(options=self._options)
        for k, entry in enumerate(entries):
            entry.another = partial(self.cl.Kernel, built, f"kernel_{k}")
            entry.kernel, entry.builder = entry.another(), None

    def text(self, work: Work) -> str:
        return program_of([_written(work)])

    def kernel(self, entry: OpenClKernel, alone: bool) -> Any:
        """A kernel that is built: one whose arguments are `alone`, or that of all."""
        if entry.builder is not None:
            self._build(entry)
        return entry.another() if alone else entry.kernel

    def numbers(self, work: Work, values: Sequence[int]) -> Any:
        flags = self.cl.mem_flags
        array = np.array(values or [0], np.int64)
        how = flags.READ_ONLY | flags.COPY_HOST_PTR
        with self._refusals():
            return self.cl.Buffer(self._context, how, hostbuf=array)

    def bind(
        self,
        entry: OpenClKernel,
        groups: int,
        buffers: Sequence[Place],
        numbers: Any,
    ) -> OpenClLaunch:
        arguments: list[Any] = []
        for memory, offset in buffers:
            arguments += (memory.handle, np.int64(offset))
        return OpenClLaunch(self, entry, groups, [*arguments, numbers])


def _written(work: Work) -> OpenClBuilder:
    builder = OpenClBuilder(work)
    work.write(builder)
    return builder
