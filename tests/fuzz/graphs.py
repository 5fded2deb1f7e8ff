"""Random valid graphs: drawn, run on two engines, compared, and made smaller.

A recipe is a list of rows: an op by name, the numbers of the rows it reads, attributes.
Values stay within a few units, so that the reference is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td

__all__ = ["ANY", "Extents", "Recipe", "compare", "draw", "shrink", "source"]

Shape = tuple[int, ...]
MOST = 20_000  # elements of a value


@dataclass(frozen=True)
class Extents:
    """The extents of a recipe: some kinds, each with its share of the draws.

    Values are `joined` up to so long an axis.
    """

    kinds: tuple[tuple[int, ...] | range, ...]
    shares: tuple[float, ...] = (1.0,)
    joined: int = 64

    def drawn(self, rng: Any, count: int) -> Shape:
        """So many extents, of no more elements than a value may have."""
        if len(self.kinds) == 1:
            return tuple(int(n) for n in rng.choice(self.kinds[0], count))
        found: Shape = ()
        while len(found) < count:
            kind = self.kinds[rng.choice(len(self.kinds), p=self.shares)]
            longer = (*found, int(rng.choice(kind)))
            found = longer if np.prod(longer) <= MOST else found
        return found


FEW = Extents(((1, 2, 3, 5, 7, 16, 33),))
ANY = Extents(
    (
        (0,),
        (1,),
        (2,),
        (3, 5, 7, 11, 13, 17, 31, 61, 127, 251, 509),
        (3, 5, 7, 9, 15, 17, 31, 33, 63, 65, 127, 129, 255, 257, 511, 513),
        range(300, 5001),
    ),
    (0.15, 0.15, 0.15, 0.2, 0.2, 0.15),
    6000,
)

UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": lambda x: -x,
    "tanh": td.tanh,
    "sigmoid": td.sigmoid,
    "sin": td.sin,
    "exp": lambda x: td.exp(td.clip(x, -3.0, 3.0)),
    "log": lambda x: td.log(td.abs(x) + 0.5),
    "sqrt": lambda x: td.sqrt(td.abs(x) + 0.25),
    "relu": td.relu,
    "square": lambda x: td.square(td.clip(x, -3.0, 3.0)),
    "erf": td.erf,
    "softmax": lambda x: td.softmax(x, -1) if x.shape else x,
    "layer_norm": lambda x: td.layer_norm(x, eps=0.1) if x.shape else x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: td.clip(x, -3.0, 3.0) * td.clip(y, -3.0, 3.0),
    "divide": lambda x, y: x / (td.abs(y) + 0.5),
    "maximum": td.maximum,
    "minimum": td.minimum,
    "where": lambda x, y: td.where(x > y, x, y * 0.5),
}
# Along an axis of the joint shape of two operands, or of the one that is read.
ALONG: dict[str, Callable[[Any, Any, int], Any]] = {
    "cumulative_sum": lambda x, y, a: td.cumulative_sum(x, a) / 4.0,
    "cumulative_prod": lambda x, y, a: td.cumulative_prod(
        td.clip(x, -_factor(x, a), _factor(x, a)), a, reverse=True
    ),
    "cumulative_max": lambda x, y, a: td.cumulative_max(x, a),
    "cumulative_logsumexp": lambda x, y, a: td.cumulative_logsumexp(
        td.clip(x, -9.0, 9.0), a
    ),
    "linear_recurrence": lambda x, y, a: td.linear_recurrence(
        td.clip(x, -0.9, 0.9), y, a
    ),
    "sort": lambda x, y, a: td.sort(x, a),
    "median": lambda x, y, a: td.median(x, a, keepdims=True) + x,
}


def _factor(x: Any, axis: int) -> float:
    """The greatest factor whose products along an axis stay finite."""
    return 1.1 if x.shape[axis] <= FEW.joined else 1.0


@dataclass(frozen=True)
class Row:
    """One value of a recipe: how it is made of earlier ones."""

    op: str
    inputs: tuple[int, ...] = ()
    attribute: Any = None


@dataclass(frozen=True)
class Recipe:
    """Rows in order; `seed` draws the arrays of the rows that are inputs."""

    rows: tuple[Row, ...]
    seed: int


def apply(row: Row, xs: list[Any]) -> Any:
    """The tensor of a row from those it reads."""
    a = row.attribute
    if row.op in UNARY:
        return UNARY[row.op](*xs)
    if row.op in BINARY:
        return BINARY[row.op](*xs)
    if row.op in ("sum", "max", "mean"):
        axes, keepdims = a
        return getattr(td, row.op)(xs[0], axes, keepdims=keepdims)
    if row.op == "permute_dims":
        return td.permute_dims(xs[0], a)
    if row.op == "reshape":
        return td.reshape(xs[0], a)
    if row.op == "broadcast_to":
        return td.broadcast_to(xs[0], a)
    if row.op == "slice":
        return xs[0][tuple(slice(*s) for s in a)]
    if row.op == "concat":
        return td.concat(xs, a)
    if row.op == "pad":
        return td.pad(xs[0], a, value=0.5)
    if row.op == "flip":
        return td.flip(xs[0], a)
    if row.op == "take":
        return td.take(xs[0], a[0], a[1])
    if row.op == "matmul":
        return td.matmul(xs[0], xs[1]) / float(max(xs[0].shape[-1], 1))
    if row.op in ALONG:
        return ALONG[row.op](xs[0], xs[-1], a)
    raise AssertionError(row.op)


def build(
    recipe: Recipe, dtype: str, nudge: float = 0.0
) -> tuple[list[Any], list[Any]]:
    """The inputs of a recipe, moved by a relative nudge, and all its values."""
    rng = np.random.default_rng(recipe.seed)
    ways = np.random.default_rng(recipe.seed + 1)
    inputs, values = [], []
    for row in recipe.rows:
        if row.op == "input":
            drawn = rng.uniform(-2.0, 2.0, row.attribute)
            own = drawn.astype(np.float32).astype(dtype)
            x = td.asarray(own * (1 + nudge * ways.choice([-1, 1], own.shape)))
            inputs.append(x)
            values.append(x)
        else:
            values.append(apply(row, [values[k] for k in row.inputs]))
    return inputs, values


def outputs_of(recipe: Recipe) -> list[int]:
    """The rows that no other row reads."""
    read = {k for row in recipe.rows for k in row.inputs}
    return [k for k in range(len(recipe.rows)) if k not in read]


def results(
    recipe: Recipe,
    dtype: str,
    gradient: bool,
    every: bool = True,
    nudge: float = 0.0,
) -> tuple[list[Any], float]:
    """Outputs (and derivatives by the inputs), and the largest value on the way.

    Without `every` the values on the way are not asked for. Inputs are moved by a
    relative `nudge`, up or down.
    """
    inputs, values = build(recipe, dtype, nudge)
    outputs = [values[k] for k in outputs_of(recipe)]
    found = list(outputs)
    if gradient:
        total = outputs[0].sum()
        for y in outputs[1:]:
            total = total + td.tanh(y).sum()
        found += td.grad(total, inputs, unused="zero")
    wanted = td.evaluate(*found, *(values if every else ()))
    arrays = wanted[: len(found)] if isinstance(wanted, tuple) else [wanted]
    everything = wanted if isinstance(wanted, tuple) else (wanted,)
    largest = max(_greatest(v) for v in everything)
    return list(arrays), largest


def _greatest(array: Any) -> float:
    """The greatest magnitude; means of nothing are NaN, and are left out."""
    return float(np.abs(array).max(initial=0.0, where=~np.isnan(array)))


def tightly(recipe: Recipe, gradient: bool) -> list[Any]:
    """The results in the smallest workspace that there are programs for."""
    workspace = 1
    while True:
        try:
            with td.options(workspace=workspace):
                return results(recipe, "float32", gradient, every=False)[0]
        except td.WorkspaceError as error:
            assert error.needed > workspace
            workspace = error.needed


def compare(
    recipe: Recipe,
    gradient: bool = True,
    optimize: bool = True,
    tight: bool = False,
    arenas: Sequence[str] = ("",),
) -> str:
    """What differs between the engines beyond rounding; nothing where they agree.

    If `tight`, the native engine has no more memory than it cannot do without. It runs
    in each of the `arenas`, where some are named.

    |native - exact| <= 4 |reference - exact| + 1024 u max|value on the way|, the exact
    one being the reference in float64: recipes sum up to 20,000 values and multiply
    what is left of them, so that a smaller factor finds rounding and not faults. Where
    that does not hold, what a rounding of the inputs comes to counts as well, 16 times:
    the sine of a large sum is as it comes.
    """
    with td.options(engine="reference", dtype="float64"):
        exact, _ = results(recipe, "float64", gradient)
    with td.options(engine="reference"):
        near, largest = results(recipe, "float32", gradient)
    for arena in arenas:
        own = {"arena": arena} if arena else {}
        with td.options(engine="native", optimize=optimize, **own):
            if tight:
                got = tightly(recipe, gradient)
            else:
                got, _ = results(recipe, "float32", gradient)
        told = _apart(exact, near, got, largest)
        if told:
            with td.options(engine="reference", dtype="float64"):
                moved, _ = results(recipe, "float64", gradient, nudge=2.0**-24)
            told = _apart(exact, near, got, largest, moved)
        if told:
            return told + (f" in mode {arena}" if arena else "")
    return ""


def _apart(
    exact: Sequence[Any],
    near: Sequence[Any],
    got: Sequence[Any],
    largest: float,
    moved: Sequence[Any] | None = None,
) -> str:
    """The first result that is no rounding of the exact one; `moved` are those of
    inputs that are rounded otherwise.
    """
    unit = 2.0**-24
    others = exact if moved is None else moved
    for k, (e, n, g, m) in enumerate(zip(exact, near, got, others, strict=True)):
        if g.shape != n.shape or g.dtype != n.dtype:
            return f"result {k} is {g.dtype}{g.shape}, not {n.dtype}{n.shape}"
        moves = 16 * _greatest(m - e)
        room = 4 * _greatest(n - e) + (moves if np.isfinite(moves) else 0.0)
        size = max(largest, _greatest(e), 1.0)
        wrong = np.abs(g - e) > room + 1024 * unit * size
        if wrong.any() or (np.isfinite(g) != np.isfinite(e)).any():
            worst = _greatest(g - e)
            return f"result {k} differs by {worst:.3g}, allowed {room:.3g}"
    return ""


def draw(seed: int, most: int = 40, extents: Extents = FEW) -> Recipe:
    """A random recipe: the seed decides everything."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    shapes: list[Shape] = []

    def add(row: Row, shape: Shape) -> None:
        rows.append(row)
        shapes.append(shape)

    for _ in range(int(rng.integers(1, 4))):
        shape = extents.drawn(rng, int(rng.integers(0, 4)))
        add(Row("input", (), shape), shape)
    for _ in range(int(rng.integers(4, most))):
        made = _row(rng, shapes, extents)
        if made is not None:
            add(*made)
    return Recipe(tuple(rows), seed)


def _row(rng: Any, shapes: list[Shape], extents: Extents) -> tuple[Row, Shape] | None:
    """A row that fits the values so far, and its shape."""
    k = int(rng.integers(max(0, len(shapes) - 8), len(shapes)))
    shape = shapes[k]
    kinds = ["unary", "binary", "fold", "move", "join", "product", "along"]
    kind = rng.choice(kinds)
    if kind == "unary" or not shape:
        return Row(str(rng.choice(list(UNARY))), (k,)), shape
    if kind in ("binary", "along"):
        fits = [j for j, s in enumerate(shapes) if _joint(shape, s) is not None]
        if not fits:
            return None
        j = int(rng.choice(fits))
        joint = _joint(shape, shapes[j])
        assert joint is not None
        if kind == "binary":
            return Row(str(rng.choice(list(BINARY))), (k, j)), joint
        name, axis = str(rng.choice(list(ALONG))), int(rng.integers(len(shape)))
        if name == "median" and not shape[axis]:
            return None
        if name != "linear_recurrence":
            return Row(name, (k,), axis), shape
        return Row(name, (k, j), axis + len(joint) - len(shape)), joint
    if kind == "fold":
        return _fold(rng, k, shape)
    if kind == "move":
        return _move(rng, k, shape, extents)
    if kind == "join":
        axis = int(rng.integers(len(shape)))
        same = [
            j
            for j, s in enumerate(shapes)
            if len(s) == len(shape)
            and all(s[d] == n for d, n in enumerate(shape) if d != axis)
        ]
        j = int(rng.choice(same))
        total = shape[axis] + shapes[j][axis]
        new = (*shape[:axis], total, *shape[axis + 1 :])
        if total > extents.joined or np.prod(new) > 4 * MOST:
            return None
        return Row("concat", (k, j), axis), new
    fits = [
        j
        for j, s in enumerate(shapes)
        if len(s) == 2 and len(shape) >= 2 and s[0] == shape[-1]
    ]
    if not fits:
        return None
    j = int(rng.choice(fits))
    new = (*shape[:-1], shapes[j][1])
    return (Row("matmul", (k, j)), new) if np.prod(new) <= 4 * MOST else None


def _joint(a: Shape, b: Shape) -> Shape | None:
    try:
        found = np.broadcast_shapes(a, b)
    except ValueError:
        return None
    return found if np.prod(found) <= MOST else None


def _fold(rng: Any, k: int, shape: Shape) -> tuple[Row, Shape]:
    count = int(rng.integers(1, len(shape) + 1))
    axes = tuple(sorted(int(a) for a in rng.permutation(len(shape))[:count]))
    keepdims = bool(rng.integers(2))
    left = tuple(
        1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes
    )
    name = str(rng.choice(["sum", "max", "mean"]))
    if name != "sum" and not all(shape[d] for d in axes):
        return None  # there is no greatest of nothing, and its mean is NaN
    return Row(name, (k,), (axes, keepdims)), left


def _move(rng: Any, k: int, shape: Shape, extents: Extents) -> tuple[Row, Shape] | None:
    moves = ["permute_dims", "reshape", "broadcast_to", "slice", "pad", "flip", "take"]
    kind = str(rng.choice(moves))
    if kind == "permute_dims":
        order = tuple(int(d) for d in rng.permutation(len(shape)))
        return Row(kind, (k,), order), tuple(shape[d] for d in order)
    if kind == "reshape":
        flat = [int(np.prod(shape))]
        options = [tuple(flat), (1, *shape), (*shape, 1)]
        if len(shape) > 1:
            options.append((shape[0] * shape[1], *shape[2:]))
        new = options[int(rng.integers(len(options)))]
        return Row("reshape", (k,), new), new
    if kind == "broadcast_to":
        new = (*extents.drawn(rng, 1), *shape)
        return (Row(kind, (k,), new), new) if np.prod(new) <= MOST else None
    if kind == "slice":
        parts = []
        for n in shape:
            start = int(rng.integers(0, max(n, 1)))
            stop = int(rng.integers(min(start + 1, n), n + 1))
            parts.append((start, stop, int(rng.integers(1, 3))))
        new = tuple(len(range(*p)) for p in parts)
        return Row("slice", (k,), tuple(parts)), new
    if kind == "pad":
        widths = tuple((int(rng.integers(3)), int(rng.integers(3))) for _ in shape)
        new = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
        return (Row(kind, (k,), widths), new) if np.prod(new) <= MOST else None
    axis = int(rng.integers(len(shape)))
    if kind == "flip":
        return Row(kind, (k,), axis), shape
    if not shape[axis]:
        return None
    ids = tuple(int(i) for i in rng.integers(-shape[axis], shape[axis], 4))
    return Row("take", (k,), (ids, axis)), (*shape[:axis], 4, *shape[axis + 1 :])


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool]) -> Recipe:
    """A smaller recipe that still fails: rows are dropped as long as that holds."""
    smaller = True
    while smaller:
        smaller = False
        for k in reversed(range(len(recipe.rows))):
            made = _without(recipe, k)
            if made is not None and _still(made, fails):
                recipe, smaller = made, True
                break
    return recipe


def _still(recipe: Recipe, fails: Callable[[Recipe], bool]) -> bool:
    """Whether a recipe is valid, for the reference engine runs it, and fails."""
    try:
        with td.options(engine="reference"):
            results(recipe, "float32", True)
    except Exception:
        return False
    return fails(recipe)


def _without(recipe: Recipe, k: int) -> Recipe | None:
    """The recipe with a row left out, its readers reading its first operand."""
    row = recipe.rows[k]
    if len(recipe.rows) == 1:
        return None
    read = any(k in r.inputs for r in recipe.rows)
    if read and not row.inputs:
        return None
    instead = row.inputs[0] if row.inputs else 0

    def moved(j: int) -> int:
        j = instead if j == k else j
        return j - 1 if j > k else j

    rows = tuple(
        Row(r.op, tuple(moved(j) for j in r.inputs), r.attribute)
        for d, r in enumerate(recipe.rows)
        if d != k
    )
    return Recipe(rows, recipe.seed)


def source(recipe: Recipe) -> str:
    """The recipe as lines to put into a test."""
    rows = ",\n    ".join(map(repr, recipe.rows))
    return f"Recipe((\n    {rows},\n), {recipe.seed})"
