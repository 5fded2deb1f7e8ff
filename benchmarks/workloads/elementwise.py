"""elementwise: chains of 1, 4 and 16 element-wise ops, and row ops, on 16M float32.

Treadle is held against the machine: the least of the rate at which memory is copied and
the rate of the same ops where all data are in cache. Results go to arrays that exist.
Backward cases ask for the value and for the cotangents of all inputs; they move the
input, the cotangent, the value and the input's cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from benchmarks.bandwidth import Copy, InCache
from benchmarks.workload import Bound, Case, Cases, Claim, Workload

__all__ = ["CHAINS", "WORKLOAD"]

Array = np.ndarray[Any, Any]
Step = tuple[str, float | str | None]  # an op, and a number, "x", "z" or nothing
CHAINS: dict[str, tuple[Step, ...]] = {
    "add": (("add", "z"),),
    "exp": (("exp", None),),
    "tanh": (("tanh", None),),
    "erf": (("erf", None),),
    "chain of 4": (("mul", 0.5), ("exp", None), ("add", "x"), ("tanh", None)),
    "chain of 16": (
        ("mul", 0.5), ("add", 0.25), ("tanh", None), ("add", "x"),
        ("mul", 0.5), ("exp", None), ("mul", 0.25), ("sub", "x"),
        ("erf", None), ("mul", "x"), ("add", 0.5), ("tanh", None),
        ("mul", 2.0), ("exp", None), ("mul", 0.125), ("add", "x"),
    ),
}  # fmt: skip
ROWS = ("softmax", "layer norm")


@dataclass(frozen=True)
class Sizes:
    """Elements of a chain; rows and columns of a row op."""

    count: int
    rows: int
    columns: int
    # Bytes that the third-level cache surely holds; an eighth of them is still enough
    # for the threads to share them evenly.
    cached: int = 8 << 20


@dataclass(frozen=True)
class Data:
    """x and z from -1 to 1; x as rows with a cotangent; weight and bias of a row."""

    x: Array
    z: Array
    rows: Array
    cotangent: Array
    weight: Array
    bias: Array


def data(sizes: Sizes, part: str) -> Data:
    """Uniform numbers."""
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> Array:
        return rng.random(shape, np.float32) * 2 - 1

    shape = (sizes.rows, sizes.columns)
    if part == "chains":
        x, z = drawn(sizes.count), drawn(sizes.count)
        rows = cotangent = np.zeros((0, sizes.columns), np.float32)
    else:
        x = z = np.zeros(0, np.float32)
        rows, cotangent = drawn(*shape), drawn(*shape)
    return Data(
        x, z, rows, cotangent, 1 + drawn(sizes.columns) / 2, drawn(sizes.columns)
    )


def chained(name: str, x: Any, z: Any, ops: Mapping[str, Any]) -> Any:
    """A chain by operators and three functions."""
    y = x
    for op, operand in CHAINS[name]:
        other = {"x": x, "z": z}.get(str(operand), operand)
        if op == "add":
            y = y + other
        elif op == "sub":
            y = y - other
        elif op == "mul":
            y = y * other
        else:
            y = ops[op](y)
    return y


def told(array: Array) -> float:
    """A number to compare results by: the sum of some elements."""
    flat = np.asarray(array).reshape(-1)
    return float(flat[:: max(1, flat.size // 1000)].sum(dtype=np.float64)) / 100


def _bounds(
    make: Callable[[int], Callable[[int], float]],
    count: int,
    cached: int,
    arrays: float,
) -> Mapping[str, Bound]:
    """What memory and arithmetic allow; `arrays` are moved, 2 in a copy."""
    most = int(cached / arrays / 4)
    few = [most // 8, most // 4, most // 2, most]
    return {"copy": Copy(count, arrays / 2), "cache": InCache(make, few, count)}


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it: results are assigned to Variables."""
    import treadle as td

    ops = {"exp": td.exp, "tanh": td.tanh, "erf": td.erf}

    def running(
        f: Callable[[], list[Any]], like: list[Array]
    ) -> Callable[[int], float]:
        targets = [td.Variable(np.zeros_like(a)) for a in like]

        def run(count: int) -> float:
            for _ in range(count):
                for target, value in zip(targets, f(), strict=True):
                    target.assign(value)
                td.evaluate(*targets)
            return sum(told(target.numpy()) for target in targets)

        return run

    def chain(name: str, n: int) -> Callable[[int], float]:
        x, z = td.asarray(given.x[:n]), td.asarray(given.z[:n])
        return running(lambda: [chained(name, x, z, ops)], [given.x[:n]])

    def rows(name: str, backward: bool, n: int) -> Callable[[int], float]:
        count = n // sizes.columns
        x, g = td.asarray(given.rows[:count]), td.asarray(given.cotangent[:count])
        w, b = td.asarray(given.weight), td.asarray(given.bias)
        norm, softmax = td.nn.functional.layer_norm, td.nn.functional.softmax

        def f() -> list[Any]:
            if name == "softmax":
                y, inputs = softmax(x, -1), [x]
            else:
                y, inputs = norm(x, sizes.columns, w, b), [x, w, b]
            return [y, *(td.vjp(y, inputs, g) if backward else [])]

        like = [given.rows[:count]] * (1 + backward)
        like += [given.weight, given.bias] if name != "softmax" and backward else []
        return running(f, like)

    for name in CHAINS if part == "chains" else ():
        made = partial(chain, name)
        arrays = 3 if name == "add" else 2
        bounds = partial(_bounds, made, sizes.count, sizes.cached, arrays)
        yield Case(name, made(sizes.count), bounds)
    for name, backward in product(ROWS, (False, True)) if part == "rows" else ():
        made, count = partial(rows, name, backward), sizes.rows * sizes.columns
        moved = 4 if backward else 2
        bounds = partial(_bounds, made, count, sizes.cached, moved)
        yield Case(f"{name} backward" if backward else name, made(count), bounds)


def torch(
    sizes: Sizes, part: str, given: Data, checking: bool, variant: str = ""
) -> Cases:
    """In torch: each op into the result's array, or compiled."""
    torch: Any = import_module("torch")
    F: Any = torch.nn.functional
    ops = {"exp": torch.exp, "tanh": torch.tanh, "erf": torch.erf}
    calls = {**ops, "add": torch.add, "sub": torch.sub, "mul": torch.mul}

    def eager(name: str, x: Any, z: Any, out: Any) -> None:
        y = x
        for op, operand in CHAINS[name]:
            other = {"x": x, "z": z}.get(str(operand), operand)
            y = calls[op](y, *(() if operand is None else (other,)), out=out)

    def compiled(name: str) -> Any:
        return torch.compile(lambda x, z, out: out.copy_(chained(name, x, z, ops)))

    x, z = torch.from_numpy(given.x), torch.from_numpy(given.z)
    for name in CHAINS if part == "chains" else ():
        into = compiled(name) if variant else lambda *a, n=name: eager(n, *a)
        out = torch.zeros_like(x)

        def run(count: int, into: Any = into, out: Any = out) -> float:
            with torch.no_grad():
                for _ in range(count):
                    into(x, z, out)
            return told(out.numpy())

        yield Case(name, run)
    rows, g = torch.from_numpy(given.rows), torch.from_numpy(given.cotangent)
    inputs = [rows, torch.from_numpy(given.weight), torch.from_numpy(given.bias)]
    functions = {
        "softmax": lambda x, w, b: torch.softmax(x, -1),
        "layer norm": lambda x, w, b: F.layer_norm(x, (sizes.columns,), w, b),
    }
    for name in ROWS if part == "rows" else ():
        f = torch.compile(functions[name]) if variant else functions[name]
        taken = inputs if name != "softmax" else inputs[:1]

        def forward(count: int, f: Any = f) -> float:
            with torch.no_grad():
                for _ in range(count):
                    y = f(*inputs)
            return told(y.numpy())

        def backward(count: int, f: Any = f, taken: Any = taken) -> float:
            for leaf in taken:
                leaf.requires_grad_(True)
            for _ in range(count):
                y = f(*inputs)
                found = torch.autograd.grad(y, taken, g)
            return sum(told(a.detach().numpy()) for a in (y, *found))

        yield Case(name, forward)
        yield Case(f"{name} backward", backward)


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax: jitted, the last results donated."""
    jax: Any = import_module("jax")
    jnp = jax.numpy
    ops = {"exp": jnp.exp, "tanh": jnp.tanh, "erf": jax.scipy.special.erf}

    def case(name: str, f: Callable[..., Any], inputs: list[Array]) -> Case:
        arrays = [jnp.array(a) for a in inputs]
        compiled = jax.jit(lambda out, *xs: f(*xs), donate_argnums=0, keep_unused=True)
        out = jax.jit(f)(*arrays)

        def run(count: int) -> float:
            nonlocal out
            for _ in range(count):
                out = compiled(out, *arrays)
            return sum(told(a) for a in jax.tree.leaves(jax.block_until_ready(out)))

        return Case(name, run)

    def norm(x: Any, w: Any, b: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        variance = (centered**2).mean(-1, keepdims=True)
        return centered * jax.lax.rsqrt(variance + 1e-5) * w + b

    def pulled(f: Callable[..., Any]) -> Callable[..., Any]:
        def both(g: Any, *xs: Any) -> Any:
            y, pull = jax.vjp(f, *xs)
            return y, *pull(g)

        return both

    for name in CHAINS if part == "chains" else ():

        def chain(x: Any, z: Any, name: str = name) -> Any:
            return chained(name, x, z, ops)

        yield case(name, chain, [given.x, given.z])
    inputs = [given.rows, given.weight, given.bias]
    for name in ROWS if part == "rows" else ():
        softmax = name == "softmax"
        f = jax.nn.softmax if softmax else norm
        taken = inputs[:1] if softmax else inputs
        yield case(name, f, taken)
        yield case(f"{name} backward", pulled(f), [given.cotangent, *taken])


CASES = (*CHAINS, *(f"{row}{back}" for row in ROWS for back in ("", " backward")))
WORKLOAD = Workload(
    name="elementwise",
    sizes={
        "plain": Sizes(16 << 20, 16_384, 1024),
        "perturbed": Sizes(15_485_863, 15_311, 1003),
        "tiny": Sizes(1003, 37, 101, 16 << 10),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "torch": torch,
        "torch-compile": partial(torch, variant="compile"),
        "jax": jax,
    },
    claims=tuple(Claim(name, "bound", "bound", 0.85, 0.95) for name in CASES),
    parts=("chains", "rows"),
    check_steps=1,
    memory=False,
)
