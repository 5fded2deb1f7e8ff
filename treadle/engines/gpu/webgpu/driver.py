"""The driver of WebGPU devices: launches are gathered in a pass until they are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import Cache
from treadle.base.errors import RunError
from treadle.base.extras import extra
from treadle.engines.gpu.driver import (
    NARROW,
    STEP,
    CompilingDriver,
    DeviceTraits,
    Place,
)
from treadle.engines.gpu.webgpu.builder import WgslBuilder, WiderError
from treadle.engines.gpu.work import Work
from treadle.engines.native.system.host import host

BOUND = 4096
MOST = 65_535  # groups along one dimension
GATHERED = 256  # launches in one pass
LONG = {"shader-int64": ("int64", "uint64"), "shader-f64": ("float64",)}
ALIGNMENT = 256  # of what begins within a buffer, in bytes


class WebGpuMemory:
    """Memory of a device."""

    def __init__(self, handle: Any, bytes: int) -> None:
        self.handle, self.bytes = handle, bytes


class WebGpuNumbers(WebGpuMemory):
    """The integers of a launch, and last how far behind its bindings buffers begin."""

    def __init__(self, handle: Any, array: Array) -> None:
        super().__init__(handle, array.nbytes)
        self.array = array


class WebGpuKernel(NamedTuple):
    """A compiled kernel, and whether its integers are of 64 bits."""

    pipeline: Any
    layout: Any
    wide: bool


def devices() -> list[tuple[Any, str]]:
    """The adapters there are, those that are no processors first, and their names."""
    wgpu = extra("wgpu", "webgpu")
    try:
        every = wgpu.gpu.enumerate_adapters_sync()
    except RuntimeError:  # no library finds one
        return []
    adapters = [a for a in every if a.info["backend_type"] != "OpenGL"]
    adapters.sort(key=lambda a: a.info["adapter_type"] == "CPU")
    return [(a, f"{a.info['device']} by {a.info['backend_type']}") for a in adapters]


class WebGpuDriver(CompilingDriver):
    """One WebGPU device, as `DeviceDriver` has it."""

    def __init__(self, adapter: Any) -> None:
        self.wgpu = wgpu = extra("wgpu", "webgpu")
        limits = adapter.limits
        errors = wgpu.GPUError, RuntimeError
        super().__init__(
            "WebGPU", limits["max-buffer-size"], errors, wgpu.GPUOutOfMemoryError
        )
        features = [f for f in ("shader-int64", "shader-f64") if f in adapter.features]
        asked = (
            *("max-buffer-size", "max-storage-buffer-binding-size"),
            *("max-storage-buffers-per-shader-stage", "max-compute-invocations"),
            "max-compute-workgroup-storage-size",
        )
        required = {k: limits[k] for k in asked if k in limits}
        with self._refusals():
            self._handle = adapter.request_device_sync(
                required_features=features, required_limits=required
            )
        self._queue = self._handle.queue
        self._bindable = limits["max-storage-buffer-binding-size"]
        self._bound: Cache[Any, Any] = Cache("WebGPU bindings", BOUND)
        self._encoder: Any = None
        self._pass: Any = None
        self._gathered = 0
        is_cpu = adapter.info["adapter_type"] == "CPU"
        self.device = DeviceTraits(
            name=f"{adapter.info['device']} by {adapter.info['backend_type']}",
            api="webgpu",
            vector_bytes=host().vector_bytes if is_cpu else STEP,
            buffers=limits["max-storage-buffers-per-shader-stage"] - 1,
            alignment=ALIGNMENT,
            dtypes=NARROW.union(*[LONG[f] for f in features]),
        )

    # -- memory ------------------------------------------------------------------------

    def allocate(self, bytes: int) -> WebGpuMemory:
        self._check(bytes)
        usage = self.wgpu.BufferUsage
        how = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        with self._refusals():
            size = -(-bytes // 4) * 4
            return WebGpuMemory(self._handle.create_buffer(size=size, usage=how), bytes)

    def free(self, memory: WebGpuMemory) -> None:
        """The buffer goes with the last binding that has it."""
        self._bound.clear()

    def upload(
        self, array: np.ndarray[Any, Any], memory: WebGpuMemory, offset: int
    ) -> None:
        bytes = array.reshape(-1).view(np.uint8)
        left = -len(bytes) % 4
        if left:
            bytes = np.append(bytes, np.zeros(left, np.uint8))
        with self._refusals():
            self._flush()
            self._queue.write_buffer(memory.handle, offset, bytes)

    def download(
        self, memory: WebGpuMemory, offset: int, array: np.ndarray[Any, Any]
    ) -> None:
        size = -(-array.nbytes // 4) * 4
        with self._refusals():
            self._flush()
            data = self._queue.read_buffer(memory.handle, offset, size)
        raw = np.frombuffer(data, np.uint8)[: array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = raw

    def copy(self, source: Place, target: Place, bytes: int) -> None:
        size = -(-bytes // 4) * 4
        (x, begin), (y, end) = source, target
        with self._refusals():
            self._flush()
            encoder = self._handle.create_command_encoder()
            copy = encoder.copy_buffer_to_buffer
            if x is y:  # which WebGPU copies by way of another one alone
                usage = self.wgpu.BufferUsage
                how = usage.COPY_SRC | usage.COPY_DST
                beside = self._handle.create_buffer(size=size, usage=how)
                copy(x.handle, begin, beside, 0, size)  # type: ignore[attr-defined]
                copy(beside, 0, y.handle, end, size)  # type: ignore[attr-defined]
            else:
                copy(x.handle, begin, y.handle, end, size)  # type: ignore[attr-defined]
            self._queue.submit([encoder.finish()])

    def fill(self, place: Place, bytes: int, byte: int) -> None:
        memory: Any = place[0]
        self.upload(np.full(bytes, byte, np.uint8), memory, place[1])

    # -- kernels -----------------------------------------------------------------------

    def _compiled(self, work: Work) -> WebGpuKernel:
        wide, text = self._written(work)
        count = len(work.buffers)
        kinds = ["storage"] * count + ["read-only-storage"]
        entries = [
            {"binding": k, "visibility": 4, "buffer": {"type": kind}}
            for k, kind in enumerate(kinds)
        ]
        with self._refusals():
            layout = self._handle.create_bind_group_layout(entries=entries)
            whole = self._handle.create_pipeline_layout(bind_group_layouts=[layout])
            module = self._handle.create_shader_module(code=text)
            stage = {"module": module, "entry_point": "main"}
            pipeline = self._handle.create_compute_pipeline(layout=whole, compute=stage)
        return WebGpuKernel(pipeline, layout, wide)

    def text(self, work: Work) -> str:
        return self._written(work)[1]

    def _written(self, work: Work) -> tuple[bool, str]:
        """The text of a kernel, and True before it if its integers are of 64 bits."""
        for wide in (work.wide, True):
            builder = WgslBuilder(work, wide)
            try:
                work.write(builder)
            except WiderError:
                continue
            return wide, builder.text()
        raise AssertionError("64 bits are as many as there are")

    def numbers(self, work: Work, values: Sequence[int]) -> WebGpuNumbers:
        wide = self.compile(work).wide
        try:
            # Then comes the 0 that is mixed in where sums may not be reordered.
            every = [*values, 0, *[0] * len(work.buffers)]
            array = np.array(every, np.int64 if wide else np.int32)
        except OverflowError as error:
            raise RunError("an array is too large for indices of 32 bits") from error
        with self._refusals():
            return self._listed(array)

    def _listed(self, array: Array) -> WebGpuNumbers:
        usage = self.wgpu.BufferUsage.STORAGE
        create = self._handle.create_buffer_with_data
        return WebGpuNumbers(create(data=array, usage=usage), array)

    def launch(
        self,
        entry: WebGpuKernel,
        groups: int,
        buffers: Sequence[Place],
        numbers: WebGpuNumbers,
    ) -> None:
        rows, key = -(-groups // MOST), (numbers, *buffers)
        try:  # as `_refusals` does, without its layers
            bound = self._bound.get(key)
            if bound is None:
                bound = self._bound[key] = self._binding(entry, buffers, numbers)
            if self._pass is None:
                self._encoder = self._handle.create_command_encoder()
                self._pass = self._encoder.begin_compute_pass()
            self._pass.set_pipeline(entry.pipeline)
            self._pass.set_bind_group(0, bound)
            self._pass.dispatch_workgroups(-(-groups // rows), rows)
            self._gathered += 1
            if self._gathered >= GATHERED:
                self._flush()
        except self._raised as error:
            raise self._told(error) from error

    def _binding(
        self, entry: WebGpuKernel, buffers: Sequence[Place], numbers: WebGpuNumbers
    ) -> Any:
        """The buffers of a launch, bound at multiples of the alignment; they come again
        where memory does."""
        offsets = [start % ALIGNMENT for _, start in buffers]
        if any(offsets):
            array = numbers.array.copy()
            array[-len(offsets) :] = offsets
            numbers = self._listed(array)
        pairs = zip(buffers, offsets, strict=True)
        starts = [(memory, start - k) for (memory, start), k in pairs]
        bound: Any = [*starts, (numbers, 0)]
        entries = [
            {
                "binding": k,
                "resource": {
                    "buffer": memory.handle,
                    "offset": offset,
                    "size": min(memory.handle.size - offset, self._bindable),
                },
            }
            for k, (memory, offset) in enumerate(bound)
        ]
        return self._handle.create_bind_group(layout=entry.layout, entries=entries)

    def _flush(self) -> None:
        """Hand over what has been gathered."""
        if self._pass is None:
            return
        self._pass.end()
        self._queue.submit([self._encoder.finish()])
        self._pass = self._encoder = None
        self._gathered = 0
