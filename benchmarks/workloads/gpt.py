"""gpt: training steps of a small decoder, every token predicted from those before it.

4 layers, width 256, 4 heads, sequence 128, batch 8, vocabulary 8192: token and position
embeddings, in each layer causal attention and a gelu network four times as wide, each
behind a layer norm and beside a residual, a last layer norm, and a head of its own
without bias. No dropout; cross entropy; AdamW with 0.0003. Embeddings get whole
gradients everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.workload import Cases, Claim, Workload, stepping

__all__ = ["WORKLOAD"]

RATE, BETAS, EPS, DECAY = 3e-4, (0.9, 0.999), 1e-8, 1e-2
SPREAD = 0.02  # standard deviation of the first weights, as GPT-2's
BATCHES = 16
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Extents of the decoder."""

    batch: int = 8
    sequence: int = 128
    width: int = 256
    heads: int = 4
    layers: int = 4
    vocabulary: int = 8192


@dataclass(frozen=True)
class Data:
    """Tokens (batches, batch, sequence + 1) and the first weights."""

    tokens: Array
    weights: dict[str, Array]

    @property
    def pairs(self) -> list[tuple[Array, Array]]:
        """Inputs and targets: every token and the one after it."""
        return [(batch[:, :-1], batch[:, 1:]) for batch in self.tokens]


def data(sizes: Sizes, part: str) -> Data:
    """Random tokens; weights (out, in) by the names of treadle's modules."""
    rng = np.random.default_rng(2)
    shape = (BATCHES, sizes.batch, sizes.sequence + 1)
    tokens = rng.integers(0, sizes.vocabulary, shape)
    weights: dict[str, Array] = {}

    def matrix(name: str, *shape: int, bias: bool = True) -> None:
        drawn = rng.standard_normal(shape, np.float32) * np.float32(SPREAD)
        weights[f"{name}.weight" if bias else name] = drawn
        if bias:
            weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)

    def norm(name: str) -> None:
        weights[f"{name}.weight"] = np.ones(sizes.width, np.float32)
        weights[f"{name}.bias"] = np.zeros(sizes.width, np.float32)

    width = sizes.width
    matrix("token", sizes.vocabulary, width, bias=False)
    matrix("position", sizes.sequence, width, bias=False)
    for k in range(sizes.layers):
        norm(f"blocks.{k}.first")
        matrix(f"blocks.{k}.joint", 3 * width, width)
        matrix(f"blocks.{k}.out", width, width)
        norm(f"blocks.{k}.second")
        matrix(f"blocks.{k}.wide", 4 * width, width)
        matrix(f"blocks.{k}.narrow", width, 4 * width)
    norm("last")
    matrix("head.weight", sizes.vocabulary, width, bias=False)
    return Data(tokens, weights)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it."""
    import treadle as td

    F = td.nn.functional
    width = sizes.width

    class Block(td.nn.Module):
        def __init__(self) -> None:
            self.first = td.nn.LayerNorm(width)
            self.joint = td.nn.Linear(width, 3 * width)
            self.out = td.nn.Linear(width, width)
            self.second = td.nn.LayerNorm(width)
            self.wide = td.nn.Linear(width, 4 * width)
            self.narrow = td.nn.Linear(4 * width, width)

        def forward(self, x: td.Tensor) -> Any:
            n, t, _ = x.shape
            joint = self.joint(self.first(x)).reshape((n, t, 3, sizes.heads, -1))
            q, k, v = td.permute_dims(joint, (2, 0, 3, 1, 4))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = td.permute_dims(y, (0, 2, 1, 3)).reshape((n, t, width))
            x = x + self.out(y)
            return x + self.narrow(F.gelu(self.wide(self.second(x))))

    class Decoder(td.nn.Module):
        def __init__(self) -> None:
            self.token = td.param(shape=(sizes.vocabulary, width))
            self.position = td.param(shape=(sizes.sequence, width))
            self.blocks = [Block() for _ in range(sizes.layers)]
            self.last = td.nn.LayerNorm(width)
            self.head = td.nn.Linear(width, sizes.vocabulary, bias=False)

        def forward(self, tokens: Array) -> Any:
            x = F.embedding(tokens, self.token) + self.position
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    model = Decoder()
    model.load_state_dict(given.weights)
    optimizer = td.optim.AdamW(lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY)

    def loss_of(inputs: Array, targets: Array) -> Any:
        logits = model(inputs).reshape((-1, sizes.vocabulary))
        return F.cross_entropy(logits, targets.reshape(-1))

    def step(inputs: Array, targets: Array) -> Any:
        return optimizer.step(loss_of(inputs, targets))

    yield stepping("step", step, given.pairs)


def torch(
    sizes: Sizes, part: str, given: Data, checking: bool, variant: str = ""
) -> Cases:
    """In torch: plain, "fused" with the AdamW of one call, or "compile" with it too."""
    torch: Any = import_module("torch")
    F: Any = torch.nn.functional
    w = {k: torch.tensor(a, requires_grad=True) for k, a in given.weights.items()}
    width, heads = sizes.width, sizes.heads

    def norm(x: Any, name: str) -> Any:
        return F.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def loss_of(inputs: Any, targets: Any) -> Any:
        n, t = inputs.shape
        x = F.embedding(inputs, w["token"]) + w["position"]
        for k in range(sizes.layers):
            block = f"blocks.{k}"
            joint = linear(norm(x, f"{block}.first"), f"{block}.joint")
            joint = joint.view(n, t, 3, heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*joint.unbind(), is_causal=True)
            y = y.transpose(1, 2).reshape(n, t, width)
            x = x + linear(y, f"{block}.out")
            h = F.gelu(linear(norm(x, f"{block}.second"), f"{block}.wide"))
            x = x + linear(h, f"{block}.narrow")
        logits = F.linear(norm(x, "last"), w["head.weight"])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    compiled = torch.compile(loss_of) if variant == "compile" else loss_of
    settings = {"lr": RATE, "betas": BETAS, "eps": EPS, "weight_decay": DECAY}
    fused = variant != ""  # the fused update is the better partner of compiled code
    optimizer = torch.optim.AdamW(list(w.values()), **settings, fused=fused)

    def step(inputs: Array, targets: Array) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(torch.tensor(inputs), torch.tensor(targets))
        loss.backward()
        optimizer.step()
        return loss.detach()

    yield stepping("step", step, given.pairs)


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax: one jitted step, parameters and states donated."""
    jax: Any = import_module("jax")
    jnp, nn = jax.numpy, jax.nn

    def norm(w: Any, x: Any, name: str) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        return centered * scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(w: Any, x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def loss_of(w: Any, inputs: Any, targets: Any) -> Any:
        n, t = inputs.shape
        x = w["token"][inputs] + w["position"]
        for k in range(sizes.layers):
            block = f"blocks.{k}"
            joint = linear(w, norm(w, x, f"{block}.first"), f"{block}.joint")
            q, key, v = jnp.moveaxis(joint.reshape(n, t, 3, sizes.heads, -1), 2, 0)
            y = nn.dot_product_attention(q, key, v, is_causal=True)
            x = x + linear(w, y.reshape(n, t, -1), f"{block}.out")
            h = linear(w, norm(w, x, f"{block}.second"), f"{block}.wide")
            h = nn.gelu(h, approximate=False)
            x = x + linear(w, h, f"{block}.narrow")
        scores = nn.log_softmax(norm(w, x, "last") @ w["head.weight"].T)
        return -jnp.take_along_axis(scores, targets[..., None], 2).mean()

    def moved(w: Any, m: Any, v: Any, count: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(w, x, y)
        (b1, b2), count = BETAS, count + 1.0
        m = {k: b1 * m[k] + (1 - b1) * g[k] for k in w}
        v = {k: b2 * v[k] + (1 - b2) * g[k] ** 2 for k in w}
        c1, c2 = 1 - b1**count, 1 - b2**count
        new = {
            k: w[k] * (1 - RATE * DECAY)
            - RATE * (m[k] / c1) / (jnp.sqrt(v[k] / c2) + EPS)
            for k in w
        }
        return new, m, v, count, loss

    update = jax.jit(moved, donate_argnums=(0, 1, 2))
    w = {k: jnp.array(a) for k, a in given.weights.items()}
    zeros = [{k: jnp.zeros_like(a) for k, a in w.items()} for _ in range(2)]
    state: list[Any] = [w, *zeros, 0.0]

    def step(inputs: Array, targets: Array) -> Any:
        *state[:], loss = update(*state, inputs, targets)
        return loss

    yield stepping("step", step, given.pairs)


WORKLOAD = Workload(
    name="gpt",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=7, sequence=99, width=100, vocabulary=5003),
        "tiny": Sizes(2, 5, 8, 2, 1, 11),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "torch": torch,
        "torch-fused": partial(torch, variant="fused"),
        "torch-compile": partial(torch, variant="compile"),
        "jax": jax,
    },
    claims=(
        Claim("step", "time", "fastest", 1.0, 1 / 1.5),
        Claim("step", "memory", "torch", 0.8, 0.6),
    ),
    iterations=10,
)
