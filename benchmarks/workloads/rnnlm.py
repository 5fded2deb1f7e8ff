"""rnnlm: training steps of a language model of one LSTM layer on padded sentences.

Words of width 128, an LSTM of 256, a vocabulary of 10,000 (others are unknown), 64
sentences of about the same length in a minibatch, padded to the longest; every word is
predicted from those before it. Cross entropy summed over the words and the end of each
sentence; Adam with 0.001 that touches only the rows of words that occur.
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

RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8
BATCHES = 8
END, UNKNOWN, PADDED = 0, 1, -1
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Extents; `longest` bounds the words of a sentence, 0 does not."""

    batch: int = 64
    width: int = 128
    hidden: int = 256
    vocabulary: int = 10_000
    longest: int = 0


@dataclass(frozen=True)
class Data:
    """Minibatches of inputs and targets (time, batch), and the first weights.

    A sentence starts from END; the targets behind its end are PADDED.
    """

    batches: list[tuple[Array, Array]]
    weights: dict[str, Array]

    @property
    def timed(self) -> float:
        """Words of one run on the average, each sentence's end with them."""
        return float(np.mean([np.sum(y != PADDED) for _, y in self.batches]))


def data(sizes: Sizes, part: str) -> Data:
    """Sentences by length, every so many of them a minibatch; weights (out, in)."""
    found = sorted(corpora.sentences(sizes.longest), key=len)
    words = numbered([w for s in found for w, _ in s], 1, first=2)
    known = {w: k for w, k in words.items() if k < sizes.vocabulary}
    starts = np.linspace(0, len(found) - sizes.batch, BATCHES + 2).astype(int)[1:-1]
    batches = []
    for start in starts.tolist():
        lines = [
            [known.get(w, UNKNOWN) for w, _ in s] for s in found[start:][: sizes.batch]
        ]
        longest = max(map(len, lines)) + 1
        inputs = np.full((longest, len(lines)), END)
        targets = np.full((longest, len(lines)), PADDED)
        for k, line in enumerate(lines):
            inputs[1 : len(line) + 1, k] = line
            targets[: len(line) + 1, k] = [*line, END]
        batches.append((inputs, targets))
    rng = np.random.default_rng(7)

    def matrix(*shape: int) -> Array:
        limit = np.sqrt(6.0 / sum(shape))
        return rng.uniform(-limit, limit, shape).astype(np.float32)

    n = sizes.hidden
    weights = {
        "embed": matrix(sizes.vocabulary, sizes.width),
        "x": matrix(4 * n, sizes.width),
        "h": matrix(4 * n, n),
        "bias": np.repeat(np.array([0, 1, 0, 0], np.float32), n),
        "out.weight": matrix(sizes.vocabulary, n),
        "out.bias": np.zeros(sizes.vocabulary, np.float32),
    }
    return Data(batches, weights)


def _torch_weights(w: dict[str, Array]) -> dict[str, Array]:
    """The LSTM's weights by the names of torch and treadle."""
    own = {"weight_ih_l0": w["x"], "weight_hh_l0": w["h"], "bias_ih_l0": w["bias"]}
    return {**own, "bias_hh_l0": np.zeros_like(w["bias"])}


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it."""
    import treadle as td

    w = given.weights
    table = td.nn.Embedding(sizes.vocabulary, sizes.width, sparse=True)
    lstm: Any = td.nn.LSTM(sizes.width, sizes.hidden)
    out = td.nn.Linear(sizes.hidden, sizes.vocabulary)
    table.load_state_dict({"weight": w["embed"]})
    lstm.load_state_dict(_torch_weights(w))
    lstm.bias_hh_l0.trainable = False  # there is one bias
    out.load_state_dict({"weight": w["out.weight"], "bias": w["out.bias"]})
    optimizer = td.optim.Adam(lr=RATE, betas=BETAS, eps=EPS)

    def step(inputs: Array, targets: Array) -> Any:
        states, _ = lstm(table(inputs))
        logits = out(states).reshape((-1, sizes.vocabulary))
        loss = td.nn.functional.cross_entropy(
            logits, targets.reshape(-1), ignore_index=PADDED, reduction="sum"
        )
        return optimizer.step(loss)

    yield stepping("step", step, given.batches, given.timed, "words")


def dynet(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In DyNet, batched by hand; with or without autobatching as it was imported."""
    dy: Any = import_module("dynet")
    model = dy.ParameterCollection()
    w = given.weights
    table = model.lookup_parameters_from_numpy(w["embed"])
    layer = lstm(dy, model, w["x"], w["h"], w["bias"])
    weight, bias = parameter(model, w["out.weight"]), parameter(model, w["out.bias"])
    trainer = dy.AdamTrainer(model, RATE, *BETAS, EPS)

    def step(inputs: Array, targets: Array) -> float:
        dy.renew_cg()
        rows = [dy.lookup_batch(table, ids) for ids in inputs.tolist()]
        losses = []
        for state, ids in zip(
            layer.initial_state().transduce(rows), targets, strict=True
        ):
            logits = dy.affine_transform([bias, weight, state])
            kept = ids != PADDED
            loss = dy.pickneglogsoftmax_batch(logits, np.where(kept, ids, 0).tolist())
            if not kept.all():
                loss *= dy.inputTensor(kept[None].astype(np.float32), batched=True)
            losses.append(loss)
        return learn(trainer, dy.sum_batches(dy.esum(losses)))

    yield stepping("step", step, given.batches, given.timed, "words")


def torch(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In torch: the padded minibatch through its LSTM."""
    torch: Any = import_module("torch")
    F: Any = torch.nn.functional
    names = ("embed", "out.weight", "out.bias")
    w = {k: torch.tensor(given.weights[k], requires_grad=True) for k in names}
    lstm = torch.nn.LSTM(sizes.width, sizes.hidden)
    known = _torch_weights(given.weights)
    lstm.load_state_dict({k: torch.tensor(a) for k, a in known.items()})
    lstm.bias_hh_l0.requires_grad_(False)  # there is one bias
    dense = [p for p in lstm.parameters() if p.requires_grad]
    dense += [w["out.weight"], w["out.bias"]]
    settings = {"lr": RATE, "betas": BETAS, "eps": EPS}
    optimizers = [
        torch.optim.Adam(dense, **settings),
        torch.optim.SparseAdam([w["embed"]], **settings),
    ]

    def step(inputs: Array, targets: Array) -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        states, _ = lstm(F.embedding(torch.tensor(inputs), w["embed"], sparse=True))
        logits = F.linear(states, w["out.weight"], w["out.bias"]).flatten(0, 1)
        wanted = torch.tensor(targets).flatten()
        loss = F.cross_entropy(logits, wanted, ignore_index=PADDED, reduction="sum")
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach()

    yield stepping("step", step, given.batches, given.timed, "words")


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax: a step compiled for each length, the layer a scan over time."""
    jax: Any = import_module("jax")
    jnp, nn = jax.numpy, jax.nn

    def loss_of(w: Any, inputs: Any, targets: Any) -> Any:
        rows = w["embed"][inputs] @ w["x"].T + w["bias"]
        zero = jnp.zeros((inputs.shape[1], sizes.hidden))

        def advance(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(row + h @ w["h"].T, 4, 1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        _, states = jax.lax.scan(advance, (zero, zero), rows)
        scores = nn.log_softmax(states @ w["out.weight"].T + w["out.bias"])
        kept = targets != PADDED
        found = jnp.take_along_axis(scores, (targets * kept)[..., None], 2)[..., 0]
        return -(found * kept).sum()

    def moved(w: Any, m: Any, v: Any, count: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(w, x, y)
        (b1, b2), count = BETAS, count + 1.0
        seen = jnp.zeros((sizes.vocabulary, 1), bool).at[x.ravel()].set(True)
        new, means, squares = {}, {}, {}
        for k in w:
            rows = seen if k == "embed" else True
            means[k] = jnp.where(rows, b1 * m[k] + (1 - b1) * g[k], m[k])
            squares[k] = jnp.where(rows, b2 * v[k] + (1 - b2) * g[k] ** 2, v[k])
            root = jnp.sqrt(squares[k] / (1 - b2**count)) + EPS
            change = RATE * (means[k] / (1 - b1**count)) / root
            new[k] = jnp.where(rows, w[k] - change, w[k])
        return new, means, squares, count, loss

    update = jax.jit(moved, donate_argnums=(0, 1, 2))
    w = {k: jnp.array(a) for k, a in given.weights.items()}
    zeros = [{k: jnp.zeros_like(a) for k, a in w.items()} for _ in range(2)]
    state: list[Any] = [w, *zeros, 0.0]

    def step(inputs: Array, targets: Array) -> Any:
        *state[:], loss = update(*state, inputs, targets)
        return loss

    yield stepping("step", step, given.batches, given.timed, "words")


WORKLOAD = Workload(
    name="rnnlm",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100, vocabulary=5003),
        "tiny": Sizes(batch=2, width=3, hidden=4, vocabulary=11, longest=2),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "dynet-autobatch": dynet,
        "dynet-plain": dynet,
        "torch": torch,
        "jax": jax,
    },
    claims=(Claim("step", "time", "fastest", 1.0, 1 / 1.5),),
    iterations=BATCHES,
    warm=BATCHES,  # each length is compiled before anything is timed
    memory=False,
    source=partial(corpora.source, corpora.SENTENCES),
)
