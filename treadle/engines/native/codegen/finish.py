"""Kernels written into a product, for each vector of its result in a register."""

from __future__ import annotations

from dataclasses import replace

from treadle.base.caches import cached
from treadle.engines.native.codegen.builder import Builder, Value, lanes
from treadle.engines.native.codegen.contraction.epilogue import Epilogue, Site
from treadle.engines.native.codegen.emit import Emitter
from treadle.loops.digest import digest
from treadle.loops.kernel import Kernel, Load, Loop


class _Finish(Emitter):
    """A kernel's innermost body, for the vector of a product that was just finished."""

    def __init__(
        self, kernel: Kernel, builder: Builder, result: Value, site: Site, product: int
    ) -> None:
        self.site = site
        self.result = result
        self.product = product
        super().__init__(kernel, "", builder)

    def _read_arguments(self) -> None:
        pointers = iter(self.site.pointers)
        self.buffers = [
            self.site.c if k == self.product else next(pointers)
            for k in range(len(self.kernel.arguments))
        ]
        self._arguments = dict(enumerate(self.site.integers))

    def load(self, x: Load) -> Value:
        """The product's own element is in a register."""
        return self.result if x.buffer == self.product else super().load(x)

    def write(self) -> None:
        body = self.kernel.body
        indices = (self.site.batch, self.site.row, self.site.column)
        self.scopes.append({})
        for index in indices:
            (loop,) = body
            assert isinstance(loop, Loop)
            self.bind(loop.axis, index)
            self.vector, body = loop.axis, loop.body
        self.lanes = lanes(self.result.type)
        self.mask = self.site.mask
        self.run(body)


@cached(1024)
def epilogue_of(kernel: Kernel, product: int) -> Epilogue:
    """The epilogue of a product by a kernel, in which `product` is its buffer."""
    plain = replace(kernel, name="")
    key = f"{product} {digest(plain)}"

    def write(b: Builder, result: Value, site: Site) -> None:
        _Finish(plain, b, result, site, product).write()

    return Epilogue(key, write, len(kernel.arguments) - 1, kernel.integers, True)
