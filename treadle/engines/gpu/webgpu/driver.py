"""The driver of WebGPU devices: launches are gathered in a pass until they are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import RunError
from treadle.base.extras import extra
from treadle.engines.gpu.driver import (
    NARROW,
    STEP,
    Allocation,
    Call,
    CompilingDriver,
    DeviceTraits,
    Place,
)
from treadle.engines.gpu.webgpu.builder import WgslBuilder, WiderError
from treadle.engines.gpu.work import Work
from treadle.engines.native.system.host import host

MOST = 65_535  # groups along one dimension
GATHERED = 256  # launches that are handed over at once
LONG = {"shader-int64": ("int64", "uint64"), "shader-f64": ("float64",)}
ALIGNMENT = 256  # of what begins within a buffer, in bytes


class WebGpuNumbers(NamedTuple):
    """The integers of a launch, and last how far behind its bindings buffers begin."""

    handle: Any
    array: Array


class WebGpuKernel(NamedTuple):
    """A compiled kernel, and whether its integers are of 64 bits."""

    pipeline: Any
    layout: Any
    wide: bool


class WebGpuLaunch:
    """A launch with its bindings: three calls of the library itself, of which each
    takes a tenth of the time of wgpu's own. What is wrong is told at the end of all."""

    __slots__ = (
        "_arguments",
        "_bindings",
        "_driver",
        "_groups",
        "_library",
        "_pipeline",
    )

    def __init__(
        self, driver: WebGpuDriver, pipeline: Any, bindings: Any, groups: int
    ) -> None:
        rows = -(-groups // MOST)
        self._driver, self._library = driver, driver.native.lib
        self._bindings = bindings  # alive as long as this is
        self._pipeline = pipeline._internal
        self._arguments = 0, bindings._internal, 0, driver.native.ffi.NULL
        self._groups = -(-groups // rows), rows, 1

    def __call__(self) -> None:
        library, place = self._library, self._driver.recording()
        library.wgpuComputePassEncoderSetPipeline(place, self._pipeline)
        library.wgpuComputePassEncoderSetBindGroup(place, *self._arguments)
        library.wgpuComputePassEncoderDispatchWorkgroups(place, *self._groups)


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
        self.native = extra("wgpu.backends.wgpu_native", "webgpu")
        self._encoder: Any = None
        self._pass: Any = None
        self._place: Any = None  # of the pass
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

    def allocate(self, bytes: int) -> Allocation:
        self._check(bytes)
        with self._refusals():
            return Allocation(self._buffer(bytes), bytes)

    def _buffer(self, bytes: int) -> Any:
        usage = self.wgpu.BufferUsage
        how = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        return self._handle.create_buffer(size=-(-bytes // 4) * 4, usage=how)

    def free(self, memory: Allocation) -> None:
        self._flush()
        memory.handle.destroy()  # whatever launches are bound to it

    def upload(self, array: Array, memory: Allocation, offset: int) -> None:
        bytes = array.reshape(-1).view(np.uint8)
        left = -len(bytes) % 4
        if left:
            bytes = np.append(bytes, np.zeros(left, np.uint8))
        with self._refusals():
            self._flush()
            self._queue.write_buffer(memory.handle, offset, bytes)

    def download(self, memory: Allocation, offset: int, array: Array) -> None:
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
            copy = self._encoding().copy_buffer_to_buffer
            start = x.handle
            if x is y:  # which WebGPU copies by way of another one alone
                start, first, begin = self._buffer(size), begin, 0
                copy(x.handle, first, start, 0, size)
            copy(start, begin, y.handle, end, size)

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

    def bind(
        self,
        entry: WebGpuKernel,
        groups: int,
        buffers: Sequence[Place],
        numbers: WebGpuNumbers,
    ) -> WebGpuLaunch:
        """Buffers are bound at multiples of the alignment."""
        offsets = [start % ALIGNMENT for _, start in buffers]
        with self._refusals():
            if any(offsets):
                array = numbers.array.copy()
                array[-len(offsets) :] = offsets
                numbers = self._listed(array)
            pairs = zip(buffers, offsets, strict=True)
            bound: list[Any] = [(memory, start - k) for (memory, start), k in pairs]
            bound.append((numbers, 0))
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
            bindings = self._handle.create_bind_group(
                layout=entry.layout, entries=entries
            )
        return WebGpuLaunch(self, entry.pipeline, bindings, groups)

    # -- what is recorded --------------------------------------------------------------

    def recording(self) -> Any:
        """The pass that takes launches until they are handed over."""
        if self._pass is None:
            self._encoder = self._encoder or self._handle.create_command_encoder()
            self._pass = self._encoder.begin_compute_pass()
            self._place = self._pass._internal
        self._gathered += 1
        return self._place

    def submit(self, calls: Sequence[Call]) -> None:
        super().submit(calls)
        if self._gathered >= GATHERED:
            with self._refusals():
                self._flush()

    def _encoding(self) -> Any:
        """The commands so far, after which others than launches come."""
        if self._pass is not None:
            self._pass.end()
            self._pass = None
        self._encoder = self._encoder or self._handle.create_command_encoder()
        return self._encoder

    def _flush(self) -> None:
        """Hand over what has been recorded."""
        if self._encoder is None:
            return
        encoder, self._encoder, self._gathered = self._encoding(), None, 0
        self._queue.submit([encoder.finish()])
