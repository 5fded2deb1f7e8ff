"""Programs in random orders in one process, and each alone: what came before decides
nothing.

    python -m tests.runtime.orders --count 200 --seed 0

Each order is run in a process of its own, as each program alone is, which has imported
the package and done nothing else. Compared are the bits of values, the texts of errors,
and how many programs ran.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

import treadle as td
from treadle.engines.native.engine import Native
from treadle.engines.native.execution.linked import Linked
from treadle.rewrite.pattern import captures, of

nn, F, optim = td.nn, td.nn.functional, td.optim
Program = Callable[[], list[Any]]
PROGRAMS: dict[str, Program] = {}
Outcome = tuple[list[Any], int]  # what came out, as bytes or texts; programs that ran


def program(f: Program) -> Program:
    PROGRAMS[f.__name__] = f
    return f


def data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def labels(n: int, k: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, k, n)


def net(width: int = 8) -> Any:
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3))


def values(module: Any) -> list[Any]:
    return [p.numpy() for p in module.parameters()]


@program
def mlp_inline() -> list[Any]:
    m, opt = net(), None
    opt = optim.Adam(m.parameters(), lr=0.01)
    losses = [
        float(opt.step(F.cross_entropy(m(data(6, 4, seed=k)), labels(6, 3, k))))
        for k in range(6)
    ]
    return [losses, *values(m)]


@program
def mlp_named() -> list[Any]:
    m = net()
    opt = optim.Adam(m.parameters(), lr=0.01)
    found = []
    for k in range(6):
        logits = m(data(6, 4, seed=k))
        loss = F.cross_entropy(logits, labels(6, 3, k))
        value = opt.step(loss)
        found.append((float(value), logits.numpy()))
    return [found, *values(m)]


@program
def mlp_by_hand() -> list[Any]:
    m = net()
    for k in range(5):
        loss = F.cross_entropy(m(data(6, 4, seed=k)), labels(6, 3, k))
        params = list(m.parameters())
        for p, g in zip(params, td.grad(loss, params), strict=True):
            p.assign(p - 0.1 * g)
    return values(m)


@program
def mlp_backward() -> list[Any]:
    m = net()
    opt = optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    found = []
    for k in range(5):
        loss = F.cross_entropy(m(data(6, 4, seed=k)), labels(6, 3, k))
        loss.backward()
        opt.step()
        opt.zero_grad()
        found.append(float(loss))
    return [found, *values(m)]


def gan(again: bool) -> list[Any]:
    g = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    og, od = optim.Adam(g.parameters(), lr=1e-2), optim.Adam(d.parameters(), lr=1e-2)
    bce, z, r = F.binary_cross_entropy_with_logits, data(8, 3), data(8, 2, seed=1)
    one, zero = np.ones((8, 1), np.float32), np.zeros((8, 1), np.float32)
    found = []
    for _ in range(4):
        fake = g(z)
        stopped = td.stop_gradient(fake)
        a = od.step(bce(d(r), one) + bce(d(stopped), zero))
        b = og.step(bce(d(g(z) if again else fake), one))
        found.append((float(a), float(b)))
    return [found, *values(g), *values(d)]


@program
def gan_reused() -> list[Any]:
    return gan(False)


@program
def gan_separate() -> list[Any]:
    return gan(True)


@program
def batch_norm() -> list[Any]:
    m = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    opt, found = optim.SGD(m.parameters(), lr=0.1), []
    for k in range(4):
        x = data(7, 4, seed=k)
        found.append(float(opt.step(F.cross_entropy(m(x), labels(7, 3, k)))))
        m.eval()
        found.append(m(data(2, 4)).numpy())
        m.train()
    return [found, *[np.asarray(x) for x in m.state_dict().values()]]


@program
def functions() -> list[Any]:
    w = td.param("w", init=data(4, 4))
    cell = td.function(lambda h, x: td.tanh(h @ w + x))
    found = []
    for n in (3, 6, 3):
        h = td.zeros(4)
        for k in range(n):
            h = cell(h, data(4, seed=k))
        found += [h.numpy(), td.grad(h.sum(), [w])[0].numpy()]
    return found


@program
def computations() -> list[Any]:
    x, w = td.placeholder((3,), name="x"), td.param("w", init=2.0)
    f = td.computation({"y": x * w, "g": td.grad((x * w).sum(), [w])[0]}, x)
    found = [f(data(3, seed=k)) for k in range(3)]
    w.assign(5.0)
    return [*found, f(x=data(3))]


@program
def scanned() -> list[Any]:
    w = td.param("w", init=data(4, 4) / 2)

    def step(h: Any, x: Any) -> Any:
        h = td.tanh(h @ w + x)
        return h, h.sum()

    found = []
    for n in (3, 5, 3):
        last, sums = td.scan(step, td.zeros(4), td.asarray(data(n, 4)))
        found += [sums.numpy(), td.grad(last.sum() + sums.sum(), [w])[0].numpy()]
    return found


def tree(depth: int, rng: random.Random) -> Any:
    if depth == 0 or rng.random() < 0.2:
        return rng.randrange(20)
    return tree(depth - 1, rng), tree(depth - 1, rng)


def trees(wrap: bool) -> list[Any]:
    words, join = nn.Embedding(20, 6), nn.Linear(12, 6)
    top = nn.Linear(6, 2)

    def cell(a: Any, b: Any) -> Any:
        return td.tanh(join(td.concat([a, b])))

    call = td.function(cell) if wrap else cell

    def encode(t: Any) -> Any:
        return words(t) if isinstance(t, int) else call(encode(t[0]), encode(t[1]))

    parts = [*words.parameters(), *join.parameters(), *top.parameters()]
    opt, rng, found = optim.Adagrad(parts, lr=0.1), random.Random(3), []
    for _ in range(4):
        rows = [top(encode(tree(4, rng))) for _ in range(8)]
        losses = [F.cross_entropy(y, k % 2) for k, y in enumerate(rows)]
        found.append(float(opt.step(td.stack(losses).mean())))
    return [found, *[p.numpy() for p in parts]]


@program
def trees_of_ops() -> list[Any]:
    return trees(False)


@program
def trees_of_cells() -> list[Any]:
    return trees(True)


@program
def tagger() -> list[Any]:
    words, cell, top = nn.Embedding(20, 6), nn.GRUCell(6, 6), nn.Linear(6, 4)
    parts = [p for m in (words, cell, top) for p in m.parameters()]
    opt, found = optim.Adam(parts, lr=0.01), []
    for n in (4, 7, 5, 4):
        h, losses = cell.initial_state(), []
        for k in range(n):
            h = cell(words(k * n % 20), h)
            losses.append(F.cross_entropy(top(h), k % 4))
        found.append(float(opt.step(td.stack(losses).sum())))
    return [found, *[p.numpy() for p in parts]]


@program
def embeddings() -> list[Any]:
    table = nn.Embedding(30, 5)
    opt = optim.Adam(table.parameters(), lr=0.1)
    found = []
    for k in range(5):
        ids = labels(6, 30, k)
        found.append(float(opt.step((table(ids) ** 2).sum())))
    return [found, *values(table)]


@program
def looked_at_first() -> list[Any]:
    m = net()
    found: list[Any] = []
    for k in range(4):
        y = td.tanh(m(data(5, 4, seed=k)))
        loss = (y * y).mean()
        found.append(str(loss))
        float(y.sum())
        found += [g.numpy() for g in td.grad(loss, list(m.parameters()))]
    return found


@program
def late_gradient() -> list[Any]:
    m = net()
    loss = F.cross_entropy(m(data(5, 4)), labels(5, 3))
    found: list[Any] = [float(loss)]
    for k in range(40):
        found.append(int(m(data(1, 4, seed=k)).argmax(1)[0]))
    optim.SGD(m.parameters(), lr=0.5).step(loss)
    return [found, *values(m)]


def rows_of(weight: Any) -> float:
    cell = td.function(lambda h: td.tanh(h @ weight))
    hs = []
    for k, leaf in enumerate(data(40, 6)):
        h = td.constant(leaf)
        for _ in range(1 + k % 3):
            h = cell(h)
        hs.append(h)
    with td.no_grad():
        return float(td.stack(hs).sum())


@program
def rules() -> list[Any]:
    (x,) = captures("x")
    tanh = of("Tanh")
    rule = td.Rule("tanh is the identity", tanh(x), x, exact=False)
    weight = td.param("w", init=np.eye(6, dtype=np.float32) / 2)
    found = []
    for own in ([], [rule], []):
        with td.options(rules=own):
            found += [rows_of(weight), td.tanh(td.asarray(data(3))).numpy()]
    return found


@program
def settings() -> list[Any]:
    found = []
    for chosen in (
        {"dtype": "float64"},
        {"optimize": False},
        {"autobatch": False},
        {"engine": "reference"},
        {"workspace": 200_000},
        {"eager": True},
        {"threads": 1},
        {"arena": "poison"},
    ):
        with td.options(seed=1, **chosen):  # type: ignore[arg-type]
            m = net()
            x = td.asarray(data(6, 4), dtype=m.parameters and td.asarray(0.5).dtype)
            loss = F.cross_entropy(m(x), labels(6, 3))
            found += [float(loss), *td.grad(loss, list(m.parameters()))]
            found.append(rows_of(td.param("w", init=data(6, 6))))
    return [y.numpy() if isinstance(y, td.Tensor) else y for y in found]


def failing(f: Callable[[], Any]) -> str:
    try:
        return f"no error: {f()}"
    except Exception as error:
        return f"{type(error).__name__} {error}"


@program
def errors() -> list[Any]:
    m, table = net(), nn.Embedding(5, 4)
    x = td.asarray(data(5, 4))

    def finite() -> Any:
        with td.options(check_numerics=True):
            return float(td.log(td.asarray(-1.0)))

    def spent() -> Any:
        loss = m(x).sum()
        optim.SGD(m.parameters(), lr=0.1).step(loss)
        return td.grad(loss, list(m.parameters()))

    def traced() -> Any:
        return td.function(lambda y: float(y))(x)

    return [
        failing(lambda: m(td.ones((2, 3)))),
        failing(lambda: table([7]).numpy()),
        failing(lambda: td.stack([table(9).sum(), table(1).sum()]).numpy()),
        failing(finite),
        failing(spent),
        failing(traced),
        failing(lambda: td.grad(td.asarray(1.0), list(m.parameters()))),
        failing(lambda: optim.SGD(m.parameters(), lr=0.1).step(td.asarray(2.0))),
        float(m(x).sum()),
    ]


@program
def dropped() -> list[Any]:
    m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    opt, found = optim.SGD(m.parameters(), lr=0.1), []
    for k in range(4):
        found.append(float(opt.step(F.cross_entropy(m(data(6, 4)), labels(6, 3, k)))))
    return [found, *values(m)]


@program
def branches() -> list[Any]:
    w = td.param("w", init=1.5)
    found = []
    for k in (-1.0, 1.0, 2.0):
        y = td.cond(td.asarray(k) > 0, lambda k=k: w * k, lambda: w * w)
        z = td.while_loop(
            lambda s: s[0] < 3,
            lambda s, y=y: (s[0] + 1, s[1] * y),
            (td.asarray(0), w * 1.0),
            max_iterations=4,
        )
        found += [float(y), float(z[1]), float(td.grad(y * y, [w])[0])]
    return found


@program
def second_order() -> list[Any]:
    x = td.param("x", init=data(4))
    y = (td.tanh(x) * x**3).sum()
    (g,) = td.grad(y, [x])
    (h,) = td.grad((g * g).sum(), [x])
    return [y.numpy(), g.numpy(), h.numpy(), td.jacobian(td.sin(x) * x, x).numpy()]


@program
def sizes() -> list[Any]:
    m = net()
    opt, found = optim.Adam(m.parameters(), lr=0.01), []
    for n in (3, 5, 9, 17, 7, 12, 4):
        found.append(float(opt.step(F.cross_entropy(m(data(n, 4)), labels(n, 3)))))
        found.append(m(data(n + 1, 4)).numpy())
    return [found, *values(m)]


@program
def folds() -> list[Any]:
    x = td.asarray(data(13, 7))
    every = [x.sum(0), x.mean(1), td.softmax(x), x.max(0), td.logsumexp(x, 1), x @ x.T]
    return [y.numpy() for y in every]


def told(x: Any) -> Any:
    """What came out, so that equal bits are equal."""
    if isinstance(x, dict):
        return [(k, told(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [told(v) for v in x]
    if isinstance(x, (str, int)):
        return x
    array = np.asarray(x)
    return array.shape, array.dtype.str, array.tobytes()


def run(name: str) -> Outcome:
    count = 0

    def counted(method: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            return method(*given, **more)

        return call

    def followed(*given: Any) -> Any:
        nonlocal count
        count += 1
        return by_core(*given)

    ways = {way: counted(getattr(Linked, way)) for way in ("run", "begin")}
    by_core, core = Native.followed, patch.object(Native, "followed", followed)
    try:
        with patch.multiple(Linked, **ways), core, td.options(seed=11):
            found = told(PROGRAMS[name]())
    except Exception:
        found = [traceback.format_exc(limit=-2)]
    return found, count


def apart(names: Sequence[str]) -> list[Outcome]:
    """What some programs come to, one after the other in a new process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump([run(name) for name in names], pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    found: list[Outcome] = pickle.loads(content)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20, help="orders")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=len(PROGRAMS), help="of an order")
    chosen = parser.parse_args(arguments)
    rng, alone, differ = random.Random(chosen.seed), dict[str, Outcome](), 0
    for number in range(chosen.count):
        order = rng.sample(sorted(PROGRAMS), min(chosen.length, len(PROGRAMS)))
        for name in order:
            if name not in alone:
                (alone[name],) = apart([name])
        for k, (name, got) in enumerate(zip(order, apart(order), strict=True)):
            want = alone[name]
            what = [] if got[0] == want[0] else ["values"]
            what += [] if abs(got[1] - want[1]) <= 1 else ["programs"]
            if what:
                differ += 1
                print(f"order {number}: {name} differs in {what} after {order[:k]}")
                if what != ["values"]:
                    print(f"  {got[1]} programs, alone {want[1]}")
                if "values" in what:
                    pairs = zip(got[0], want[0], strict=False)
                    print("  ", next((p for p in pairs if p[0] != p[1]), "length"))
    print(f"{chosen.count} orders of {len(PROGRAMS)} programs, {differ} differ")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
