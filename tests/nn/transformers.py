"""Transformers in NumPy, from the names of a state: what nn.transformer is held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_erf = np.vectorize(math.erf)


class Weights:
    """The arrays of a state below a beginning of their names."""

    def __init__(self, state: Mapping[str, Array], start: str = "") -> None:
        self.state, self.start = state, start

    def at(self, name: str) -> Weights:
        return Weights(self.state, f"{self.start}{name}.")

    def __contains__(self, name: str) -> bool:
        return any(k.startswith(self.start + name) for k in self.state)

    def __getitem__(self, name: str) -> Array:
        return self.state[self.start + name]

    def linear(self, name: str, x: Array) -> Array:
        y = x @ self[f"{name}.weight"].T
        return y + self[f"{name}.bias"] if f"{name}.bias" in self else y

    def norm(self, name: str, x: Array, eps: float) -> Array:
        if f"{name}.bias" not in self:
            y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
            return y * self[f"{name}.weight"]
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return y * self[f"{name}.weight"] + self[f"{name}.bias"]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "swish": lambda x: x * sigmoid(x),
}


def turned(x: Array, halves: bool) -> Array:
    """x [..., length, width] turned as complex numbers, pair by pair."""
    length, width = x.shape[-2:]
    half = width // 2
    a, b = (x[..., :half], x[..., half:]) if halves else (x[..., ::2], x[..., 1::2])
    rate = 10000.0 ** (-np.arange(half) * 2 / width)
    z = (a + 1j * b) * np.exp(1j * np.arange(length)[:, None] * rate)
    parts = [z.real, z.imag]
    if halves:
        return np.concatenate(parts, -1)
    return np.stack(parts, -1).reshape(x.shape)


def attention(
    w: Weights,
    x: Array,
    memory: Array,
    heads: int,
    seen: Array,
    positions: str | None = None,
) -> Array:
    """Row by row and head by head; `seen` is bool [rows, queries, keys]."""
    q, k, v = (
        w.linear(f"{n}_proj", s) for n, s in (("q", x), ("k", memory), ("v", memory))
    )
    d = q.shape[-1] // heads
    found = np.zeros_like(q)
    for r in range(len(x)):
        for h in range(heads):
            part = slice(h * d, h * d + d)
            a, b = q[r, :, part], k[r, :, part]
            if positions in ("rotary", "rotary halves"):
                a, b = (turned(y, positions == "rotary halves") for y in (a, b))
            scores = a @ b.T / math.sqrt(d)
            if positions == "alibi":
                i, j = np.indices(scores.shape)
                scores = scores - w["alibi.slopes"][h] * abs(i - j)
            scores = np.where(seen[r], scores, -np.inf)
            found[r, :, part] = softmax(scores) @ v[r, :, part]
    return w.linear("out_proj", found) if "out_proj" in w else found


def average(w: Weights, x: Array, prepare: Callable[[Array], Array], act: str) -> Array:
    y = prepare(np.stack([x[:, : t + 1].mean(1) for t in range(x.shape[1])], 1))
    depth = 0
    while f"layers.{depth + 1}.weight" in w:
        y = ACTIVATIONS[act](w.linear(f"layers.{depth}", y))
        depth += 1
    y = w.linear(f"layers.{depth}", y)
    if "input_gate" not in w:
        return y
    i, f = sigmoid(w.linear("input_gate", x)), sigmoid(w.linear("forget_gate", y))
    return i * x + f * y


def ssru(w: Weights, x: Array) -> Array:
    n = x.shape[-1]
    own, c = w.at("cell"), np.zeros((len(x), n))
    found = []
    for t in range(x.shape[1]):
        new = x[:, t] @ own["weight_ih"][:n].T
        f = sigmoid(x[:, t] @ own["weight_ih"][n:].T + own["bias_ih"])
        c = f * c + (1 - f) * new
        found.append(np.maximum(c, 0))
    y = np.stack(found, 1)
    return w.linear("out_proj", y) if "out_proj" in w else y


class Layer:
    """One layer, by its state and its settings."""

    def __init__(self, w: Weights, heads: int, eps: float, **given: Any) -> None:
        self.w, self.heads, self.eps = w, heads, eps
        self.before, self.after = given.get("preprocess", ""), given["postprocess"]
        self.activation = given.get("activation", "relu")
        self.positions = given.get("positions")
        self.autoregression = given.get("autoregression", "self-attention")

    def pre(self, x: Array, k: int) -> Array:
        for name in self.before:
            if name in "nr":
                own = f"norm{k}_before" if f"norm{k}_before" in self.w else f"norm{k}"
                x = self.w.norm(own, x, self.eps)
        return x

    def post(self, y: Array, x: Array, k: int) -> Array:
        for name in self.after:
            if name == "a":
                y = y + x
            elif name == "h":
                t = sigmoid(self.w.linear(f"highway{k}", x))
                y = t * y + (1 - t) * x
            elif name in "nr":
                y = self.w.norm(f"norm{k}", y, self.eps)
        return y

    def mixed(self, x: Array, seen: Array) -> Array:
        w = self.w.at("self_attn")
        if self.autoregression == "average-attention":
            return average(w, x, lambda y: self.pre(y, 1), "relu")
        h = self.pre(x, 1)
        if self.autoregression == "rnn":
            return ssru(w, h)
        return attention(w, h, h, self.heads, seen, self.positions)

    def __call__(
        self, x: Array, seen: Array, memory: Any = None, known: Any = None
    ) -> Array:
        x = self.post(self.mixed(x, seen), x, 1)
        if memory is not None:
            w = self.w.at("multihead_attn")
            y = attention(w, self.pre(x, 2), memory, self.heads, known)
            x = self.post(y, x, 2)
        k = 2 if memory is None else 3
        y, depth = self.pre(x, k), 1
        while f"linear{depth + 1}.weight" in self.w:
            y = ACTIVATIONS[self.activation](self.w.linear(f"linear{depth}", y))
            depth += 1
        return self.post(self.w.linear(f"linear{depth}", y), x, k)


def sinusoids(length: int, width: int) -> Array:
    found = np.zeros((length, width))
    for t in range(length):
        for k in range(0, width, 2):
            angle = t / 10000 ** (k / width)
            found[t, k], found[t, k + 1] = math.sin(angle), math.cos(angle)
    return found


def translator(
    state: Mapping[str, Array], source: Array, target: Array, mask: Array, heads: int,
    depth: tuple[int, int], positions: str = "sinusoidal", top: str = "", **given: Any,
) -> Array:  # fmt: skip
    """The logits of `nn.Translator`, without dropout."""
    w = Weights(state)
    own = positions if positions not in ("sinusoidal", "learned", "none") else None
    given = {"postprocess": "dan", **given}

    def placed(x: Array) -> Array:
        if positions == "sinusoidal":
            return x * math.sqrt(x.shape[-1]) + sinusoids(*x.shape[1:])
        if positions == "learned":
            return x + w["places.table.weight"][: x.shape[1]]
        return x

    def last(side: str, x: Array) -> Array:
        return w.norm(f"{side}.norm.norm", x, 1e-6) if "n" in top else x

    x = placed(w["source_embedding.weight"][source])
    encoder = {k: v for k, v in given.items() if k != "autoregression"}
    for k in range(depth[0]):
        at = w.at(f"encoder.layers.{k}")
        whole = np.repeat(mask[:, None], source.shape[1], 1)
        x = Layer(at, heads, 1e-6, positions=own, **encoder)(x, whole)
    memory, y = last("encoder", x), placed(w["target_embedding.weight"][target])
    length = target.shape[1]
    causal = np.tri(length, dtype=bool)[None].repeat(len(y), 0)
    known = np.repeat(mask[:, None], length, 1)
    for k in range(depth[1]):
        at = w.at(f"decoder.layers.{k}")
        layer = Layer(at, heads, 1e-6, positions=own, **given)
        y = layer(y, causal, memory, known)
    return w.linear("output", last("decoder", y))


def bert(state: Mapping[str, Array], ids: Array, mask: Array, heads: int) -> Array:
    """The hidden states of `nn.Bert`, without dropout."""
    w = Weights(state)
    x = w["words.weight"][ids] + w["places.table.weight"][: ids.shape[1]]
    x = w.norm("norm", x + w["kinds.weight"][0], 1e-12)
    seen, k = np.repeat(mask[:, None], ids.shape[1], 1), 0
    while f"encoder.layers.{k}." in w:
        settings = {"postprocess": "dan", "activation": "gelu"}
        x = Layer(w.at(f"encoder.layers.{k}"), heads, 1e-12, **settings)(x, seen)
        k += 1
    return x
