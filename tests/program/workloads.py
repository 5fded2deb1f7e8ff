"""Steps and buffers like those of real programs: training of chains, nets and DAGs."""

from __future__ import annotations

import random
from collections.abc import Sequence

from treadle.program.memory import Range

Tape = list[tuple[list[int], int]]


class Workload:
    """Steps that read and make buffers, in a valid order."""

    def __init__(self) -> None:
        self.uses: list[list[int]] = []
        self.makes: list[list[int]] = []
        self.size: list[int] = []
        self.outputs: set[int] = set()
        self.tape: Tape = []

    @property
    def all(self) -> tuple[list[list[int]], list[list[int]], list[int], set[int]]:
        return self.uses, self.makes, self.size, self.outputs

    def buffer(self, size: int) -> int:
        self.size.append(size)
        return len(self.size) - 1

    def step(self, uses: Sequence[int], size: int) -> int:
        made = self.buffer(size)
        self.uses.append(list(dict.fromkeys(uses)))
        self.makes.append([made])
        return made

    def taped(self, uses: Sequence[int], size: int) -> int:
        made = self.step(uses, size)
        self.tape.append((list(dict.fromkeys(uses)), made))
        return made

    def train(self, root: int, late: bool = False) -> Workload:
        """The backward pass, and an update of each parameter, at once or at the end."""
        made = {out for _, out in self.tape}
        grads = {root: self.step([root], self.size[root])}
        found: list[tuple[int, int]] = []
        for uses, out in reversed(self.tape):
            if out not in grads:
                continue
            grad = grads.pop(out)
            for k, x in enumerate(uses):
                others = [u for u in uses if u != x][:2] or [x]
                part = self.step([grad, *others], self.size[x])
                if x in made and x in grads:
                    grads[x] = self.step([grads[x], part], self.size[x])
                elif x in made:
                    grads[x] = part
                elif k:
                    found.append((part, x))
                    if not late:
                        self._update(*found.pop())
        for part, x in found:
            self._update(part, x)
        return self

    def _update(self, grad: int, parameter: int) -> None:
        size = self.size[parameter]
        moment = self.step([grad, parameter], size)
        self.outputs |= {moment, self.step([moment, parameter], size)}

    def ranges(self, order: Sequence[int] | None = None) -> list[Range]:
        """Lifetimes of the buffers that live in the arena."""
        spans: dict[int, tuple[int, int]] = {}
        for place, step in enumerate(order or range(len(self.uses))):
            for buffer in self.makes[step]:
                spans[buffer] = (place, place)
            for buffer in self.uses[step]:
                if buffer in spans:
                    spans[buffer] = (spans[buffer][0], place)
        return [
            Range(self.size[b], *span)
            for b, span in spans.items()
            if b not in self.outputs
        ]


def chain(layers: int, seed: int = 0, late: bool = False) -> Workload:
    """Dense layers of uneven width."""
    load, draw = Workload(), random.Random(seed)
    width = draw.choice([32, 100, 256])
    x = load.buffer(400 * width)
    for _ in range(layers):
        wide = draw.choice([32, 64, 100, 128, 200, 256, 512, 1000])
        x = load.taped([x, load.buffer(4 * width * wide)], 400 * wide)
        x = load.taped([x], 400 * wide)
        width = wide
    return load.train(x, late)


def residual(blocks: int, seed: int = 0, late: bool = False) -> Workload:
    """Blocks around which a shortcut goes; each stage halves the image."""
    load, channels, pixels = Workload(), 64, 56 * 56
    x = load.buffer(16 * 3 * pixels)
    x = load.taped([x, load.buffer(4 * 27 * channels)], 16 * channels * pixels)
    for block in range(blocks):
        y, inner = x, channels
        if block % 3 == 2:
            channels, pixels = channels * 2, pixels // 4
        for size, taps in ((inner // 2, 1), (inner // 2, 9), (channels, 1)):
            weight = load.buffer(4 * taps * inner * size)
            y = load.taped([y, weight], 16 * size * pixels)
            y = load.taped([y, load.taped([y], 8 * size)], 16 * size * pixels)
        if load.size[y] != load.size[x]:
            x = load.taped([x, load.buffer(4 * channels * channels)], load.size[y])
        x = load.taped([load.taped([y, x], load.size[y])], load.size[y])
    return load.train(x, late)


def u_shape(depth: int, seed: int = 0, late: bool = False) -> Workload:
    """Down and up again, what was on the way down joined on the way up."""
    load, size = Workload(), 1 << 20
    x, kept = load.buffer(size // 8), []
    for level in range(depth):
        for _ in range(2):
            x = load.taped([x, load.buffer(4096 << 2 * level)], size >> level)
            x = load.taped([x], size >> level)
        kept.append(x)
        x = load.taped([x], size >> level + 1)
    for level in reversed(range(depth)):
        x = load.taped([x], size >> level)
        x = load.taped([x, kept.pop()], 2 * size >> level)
        x = load.taped([x, load.buffer(4096 << 2 * level)], size >> level)
        x = load.taped([x], size >> level)
    return load.train(x, late)


def dag(steps: int, seed: int = 0, train: bool = True) -> Workload:
    """Steps that read any earlier buffers, of sizes that differ by decades."""
    load, draw = Workload(), random.Random(seed)
    known = [load.buffer(1 << draw.randint(6, 16)) for _ in range(3)]
    sizes = [0, 64, 256, 1000, 4096, 10_000, 1 << 15, 100_000, 1 << 18]
    for _ in range(steps):
        uses = [draw.choice(known) for _ in range(draw.randint(1, 3))]
        known.append(load.taped(uses, draw.choice(sizes[not train :])))
    used = {buffer for uses in load.uses for buffer in uses}
    ends = [out for _, out in load.tape if out not in used]
    if train:
        return load.train(load.taped(ends, 64))
    load.outputs |= {out for out in ends if draw.random() < 0.5}
    return load
