"""tagger: training steps of a bidirectional LSTM tagger, as in the DyNet paper.

Words of width 128, an LSTM of 50 in each direction, tanh of 32 without bias, the tags;
cross entropy summed over words; Adam with 0.001 that touches only the rows of words
that occur. Words seen once are unknown. "sentence": 64 sentences with an update after
each, "minibatch": one update for 64 sentences of unequal length. No sentence comes
twice: what is timed is the rest of a first epoch, with all that sizes never seen cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import corpora
from benchmarks.corpora import numbered
from benchmarks.dynet import learn, lstm, parameter
from benchmarks.workload import Cases, Claim, Workload, stepping

__all__ = ["WORKLOAD"]

RATE, MLP = 1e-3, 32
WARM, TIMED = 3, 23  # minibatches: all that there are of 64
DIRECTIONS = ("ahead", "back")
Array = np.ndarray[Any, Any]
Sentence = tuple[list[int], list[int]]  # word ids, tag ids


@dataclass(frozen=True)
class Sizes:
    """Extents; `longest` bounds the words of a sentence, 0 does not."""

    batch: int = 64
    width: int = 128
    hidden: int = 50
    longest: int = 0


@dataclass(frozen=True)
class Data:
    """Minibatches of sentences, and the first weights."""

    batches: list[tuple[list[Sentence]]]
    weights: dict[str, Array]

    @property
    def timed(self) -> float:
        """Words of one run, on the average of those that are timed."""
        lengths = [sum(len(words) for words, _ in b) for (b,) in self.batches[WARM:]]
        return sum(lengths) / len(lengths)


def data(sizes: Sizes, part: str) -> Data:
    """Sentences of ids and weights (out, in), gates i, f, g, o."""
    found = corpora.sentences(sizes.longest)
    ids = numbered([w for s in found for w, _ in s], 2, first=1)  # 0: unknown
    tags = numbered([t for s in found for _, t in s], 1)
    known = [([ids.get(w, 0) for w, _ in s], [tags[t] for _, t in s]) for s in found]
    starts = range(0, sizes.batch * (WARM + TIMED), sizes.batch)
    batches = [(known[k : k + sizes.batch],) for k in starts]
    rng = np.random.default_rng(6)

    def matrix(*shape: int) -> Array:
        limit = np.sqrt(6.0 / sum(shape))
        return rng.uniform(-limit, limit, shape).astype(np.float32)

    n = sizes.hidden
    weights = {"embed": matrix(len(ids) + 1, sizes.width)}
    for name in DIRECTIONS:
        weights[f"{name}.x"] = matrix(4 * n, sizes.width)
        weights[f"{name}.h"] = matrix(4 * n, n)
        weights[f"{name}.bias"] = np.repeat(np.array([0, 1, 0, 0], np.float32), n)
    weights["mlp"] = matrix(MLP, 2 * n)
    weights["out"] = matrix(len(tags), MLP)
    return Data(batches, weights)


def alone(part: str, step: Any) -> Any:
    """A step of a minibatch, or one that takes its sentences each by itself."""
    if part == "minibatch":
        return step

    def each(sentences: list[Sentence]) -> Any:
        for sentence in sentences:
            last = step([sentence])
        return last

    return each


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it: a cell for each word and direction."""
    import treadle as td

    F = td.nn.functional
    w = given.weights
    table = td.nn.Embedding(*w["embed"].shape, sparse=True)
    mlp = td.nn.Linear(2 * sizes.hidden, MLP, bias=False)
    out = td.nn.Linear(MLP, len(w["out"]), bias=False)
    for module, name in ((table, "embed"), (mlp, "mlp"), (out, "out")):
        module.load_state_dict({"weight": w[name]})

    def direction(name: str) -> Any:
        lstm: Any = td.nn.LSTMCell(sizes.width, sizes.hidden)
        lstm.load_state_dict(_torch_weights(w, name, ""))
        lstm.bias_hh.trainable = False  # there is one bias
        return td.function(lambda x, state: lstm(x, state))

    ahead, back = map(direction, DIRECTIONS)
    zero = td.zeros(sizes.hidden)

    @td.function
    def score(left: Any, right: Any) -> Any:
        return out(td.tanh(mlp(td.concat([left, right]))))

    def states(cell: Any, rows: Any) -> list[Any]:
        state, found = (zero, zero), []
        for x in rows:
            state = cell(x, state)
            found.append(state[0])
        return found

    def logits(words: list[int]) -> list[Any]:
        rows = [table(word) for word in words]
        lefts, rights = states(ahead, rows), states(back, reversed(rows))
        return [score(*pair) for pair in zip(lefts, reversed(rights), strict=True)]

    optimizer = td.optim.Adam(lr=RATE)

    def step(sentences: list[Sentence]) -> Any:
        scores = [y for words, _ in sentences for y in logits(words)]
        tags = [tag for _, own in sentences for tag in own]
        loss = F.cross_entropy(td.stack(scores), tags, reduction="sum")
        return optimizer.step(loss)

    yield stepping(part, alone(part, step), given.batches, given.timed, "words")


def _torch_weights(w: dict[str, Array], name: str, tag: str) -> dict[str, Array]:
    """The weights of a direction by the names of torch, and of treadle's cells."""
    return {
        f"weight_ih{tag}": w[f"{name}.x"],
        f"weight_hh{tag}": w[f"{name}.h"],
        f"bias_ih{tag}": w[f"{name}.bias"],
        f"bias_hh{tag}": np.zeros_like(w[f"{name}.bias"]),
    }


def dynet(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In DyNet, word by word; with or without autobatching as it was imported."""
    dy: Any = import_module("dynet")
    model = dy.ParameterCollection()
    w = given.weights
    table = model.lookup_parameters_from_numpy(w["embed"])
    mlp, out = parameter(model, w["mlp"]), parameter(model, w["out"])
    ahead, back = (
        lstm(dy, model, *(w[f"{name}.{k}"] for k in ("x", "h", "bias")))
        for name in DIRECTIONS
    )
    trainer = dy.AdamTrainer(model, RATE)

    def losses(words: list[int], tags: list[int]) -> list[Any]:
        rows = [table[word] for word in words]
        lefts = ahead.initial_state().transduce(rows)
        rights = reversed(back.initial_state().transduce(rows[::-1]))
        return [
            dy.pickneglogsoftmax(out * dy.tanh(mlp * dy.concatenate([a, b])), tag)
            for a, b, tag in zip(lefts, rights, tags, strict=True)
        ]

    def step(sentences: list[Sentence]) -> float:
        dy.renew_cg()
        found = [loss for s in sentences for loss in losses(*s)]
        return learn(trainer, dy.esum(found))

    yield stepping(part, alone(part, step), given.batches, given.timed, "words")


def torch(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In torch: a sentence as it is, a minibatch as packed sequences."""
    torch: Any = import_module("torch")
    F: Any = torch.nn.functional
    rnn: Any = torch.nn.utils.rnn
    names = ("embed", "mlp", "out")
    w = {k: torch.tensor(given.weights[k], requires_grad=True) for k in names}
    lstm = torch.nn.LSTM(sizes.width, sizes.hidden, bidirectional=True)
    weights: dict[str, Array] = {}
    for name, tag in zip(DIRECTIONS, ("_l0", "_l0_reverse"), strict=True):
        weights |= _torch_weights(given.weights, name, tag)
    lstm.load_state_dict({k: torch.tensor(a) for k, a in weights.items()})
    for name, p in lstm.named_parameters():
        p.requires_grad_(not name.startswith("bias_hh"))  # there is one bias
    dense = [p for p in lstm.parameters() if p.requires_grad] + [w["mlp"], w["out"]]
    optimizers = [
        torch.optim.Adam(dense, lr=RATE),
        torch.optim.SparseAdam([w["embed"]], lr=RATE),
    ]

    def states(sentences: list[Sentence]) -> tuple[Any, Any]:
        """The states of all words, and their tags in the same order."""
        words = torch.tensor([word for s, _ in sentences for word in s])
        tags = torch.tensor([tag for _, own in sentences for tag in own])
        rows = F.embedding(words, w["embed"], sparse=True)
        if len(sentences) == 1:
            return lstm(rows)[0], tags
        lengths = [len(s) for s, _ in sentences]
        packed = rnn.pack_sequence(rows.split(lengths), enforce_sorted=False)
        targets = rnn.pack_sequence(tags.split(lengths), enforce_sorted=False)
        return lstm(packed)[0].data, targets.data

    def step(sentences: list[Sentence]) -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        found, tags = states(sentences)
        logits = F.linear(torch.tanh(F.linear(found, w["mlp"])), w["out"])
        loss = F.cross_entropy(logits, tags, reduction="sum")
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach()

    yield stepping(part, alone(part, step), given.batches, given.timed, "words")


WORKLOAD = Workload(
    name="tagger",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=2, width=3, hidden=4, longest=2),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "dynet-autobatch": dynet,
        "dynet-plain": dynet,
        "torch": torch,
    },
    claims=(Claim("*", "time", "dynet-autobatch", 1 / 1.2, 1 / 2),),
    parts=("sentence", "minibatch"),
    iterations=TIMED,
    warm=WARM,
    memory=False,
    source=partial(corpora.source, corpora.SENTENCES),
)
