"""ragged: a bidirectional LSTM layer over sequences of very unequal length.

Inputs and each direction's states of width 256, 32 sequences of 5 to 200 steps; the
loss is half the sum of the squared outputs, derived by all weights and inputs. Nothing
is learnt: a run is forward and backward. No set of lengths comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.dynet import lstm
from benchmarks.workload import Cases, Claim, Workload, stepping

__all__ = ["WORKLOAD"]

WARM, TIMED = 1, 3
DIRECTIONS = ("_l0", "_l0_reverse")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Extents: how many sequences, of which lengths, the width of inputs and states."""

    count: int = 32
    shortest: int = 5
    longest: int = 200
    width: int = 256


@dataclass(frozen=True)
class Data:
    """Batches of sequences (steps, width), and the weights by torch's names."""

    batches: list[tuple[list[Array]]]
    weights: dict[str, Array]

    @property
    def timed(self) -> float:
        """Steps of one run, on the average of those that are timed."""
        lengths = [sum(map(len, xs)) for (xs,) in self.batches[WARM:]]
        return sum(lengths) / len(lengths)


def data(sizes: Sizes, part: str) -> Data:
    """Normal inputs; weights within 1 / sqrt(width), gates i, f, g, o, one bias."""
    rng = np.random.default_rng(8)
    n = sizes.width
    batches = []
    for _ in range(WARM + TIMED):
        lengths = rng.integers(sizes.shortest, sizes.longest + 1, sizes.count)
        xs = [rng.standard_normal((k, n), np.float32) for k in lengths.tolist()]
        batches.append((xs,))
    limit = 1 / np.sqrt(n)
    weights: dict[str, Array] = {}
    for tag in DIRECTIONS:
        for name, shape in (("weight_ih", (4 * n, n)), ("weight_hh", (4 * n, n))):
            drawn = rng.uniform(-limit, limit, shape)
            weights[name + tag] = drawn.astype(np.float32)
        weights[f"bias_ih{tag}"] = np.repeat(np.array([0, 1, 0, 0], np.float32), n)
        weights[f"bias_hh{tag}"] = np.zeros(4 * n, np.float32)
    return Data(batches, weights)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it: a cell for each step and direction."""
    import treadle as td

    n = sizes.width

    def direction(tag: str) -> Any:
        made: Any = td.nn.LSTMCell(n, n)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        made.load_state_dict({k: given.weights[k + tag] for k in names})
        made.bias_hh.trainable = False  # there is one bias
        cell = td.function(lambda x, state: made(x, state))
        return cell, [made.weight_ih, made.weight_hh, made.bias_ih]

    (ahead, own), (back, others) = map(direction, DIRECTIONS)
    zero = td.zeros(n)

    def states(cell: Any, steps: Any) -> list[Any]:
        state, found = (zero, zero), []
        for x in steps:
            state = cell(x, state)
            found.append(state[0])
        return found

    def step(sequences: list[Array]) -> Any:
        xs = [td.constant(x) for x in sequences]
        outputs = []
        for x in xs:
            steps = td.unstack(x)
            outputs += states(ahead, steps) + states(back, reversed(steps))
        y = td.stack(outputs)
        loss = 0.5 * (y * y).sum()
        grads = td.grad(loss, [*own, *others, *xs])
        value = loss + (grads[1] * grads[1]).sum() + (grads[-1] * grads[-1]).sum()
        td.evaluate(value, *grads)
        return value

    yield stepping("step", step, given.batches, given.timed, "steps")


def dynet(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In DyNet, step by step; with or without autobatching as it was imported."""
    dy: Any = import_module("dynet")
    model = dy.ParameterCollection()
    names = ("weight_ih", "weight_hh", "bias_ih")
    layers = [
        lstm(dy, model, *(given.weights[name + tag] for name in names))
        for tag in DIRECTIONS
    ]
    ahead, back = layers
    recurrent = ahead.get_parameters()[0][1]

    def step(sequences: list[Array]) -> float:
        dy.renew_cg()
        for p in model.parameters_list():
            p.scale_gradient(0.0)  # nothing else lets go of what backward adds to
        xs = [[dy.inputVector(row) for row in x] for x in sequences]
        outputs = []
        for x in xs:
            outputs += ahead.initial_state().transduce(x)
            outputs += back.initial_state().transduce(x[::-1])
        loss = dy.esum([dy.squared_norm(y) for y in outputs]) * 0.5
        value: float = loss.value()
        loss.backward(full=True)
        last = sum(float(np.sum(x.gradient() ** 2)) for x in xs[-1])
        return value + float(np.sum(recurrent.grad_as_array() ** 2)) + last

    yield stepping("step", step, given.batches, given.timed, "steps")


def torch(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In torch, as packed sequences."""
    torch: Any = import_module("torch")
    rnn: Any = torch.nn.utils.rnn
    layer = torch.nn.LSTM(sizes.width, sizes.width, bidirectional=True)
    layer.load_state_dict({k: torch.tensor(a) for k, a in given.weights.items()})
    for name, p in layer.named_parameters():
        p.requires_grad_(not name.startswith("bias_hh"))  # there is one bias

    def step(sequences: list[Array]) -> Any:
        layer.zero_grad(set_to_none=True)
        xs = [torch.from_numpy(x).requires_grad_() for x in sequences]
        y = layer(rnn.pack_sequence(xs, enforce_sorted=False))[0].data
        loss = 0.5 * (y * y).sum()
        loss.backward()
        own, last = layer.weight_hh_l0.grad, xs[-1].grad
        value = loss.detach() + (own * own).sum() + (last * last).sum()
        for x in xs:
            x.grad = None
        return value

    yield stepping("step", step, given.batches, given.timed, "steps")


WORKLOAD = Workload(
    name="ragged",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(count=37, width=100),
        "tiny": Sizes(count=2, shortest=1, longest=2, width=3),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "dynet-autobatch": dynet,
        "dynet-plain": dynet,
        "torch": torch,
    },
    claims=(Claim("step", "time", "torch", 1 / 1.5, 1 / 3),),
    iterations=TIMED,
    memory=False,
    warm=WARM,
)
