"""A slice of the campaign over random graphs; `python -m tests.fuzz` runs the rest."""

from __future__ import annotations

import pytest

from tests.fuzz.graphs import Recipe, Row, compare, draw, shrink, source

# Recipes that once differed, as small as they became.
FOUND = [
    Recipe(
        (
            Row("input", (), (1, 5)),
            Row("sum", (0,), ((0,), False)),
            Row("mean", (1,), ((0,), True)),
        ),
        1045,
    ),
    Recipe(
        (
            Row("input", (), (7, 1, 5)),
            Row("sum", (0,), ((1, 2), True)),
            Row("sum", (1,), ((2,), False)),
            Row("max", (2,), ((0, 1), False)),
        ),
        1101,
    ),
    Recipe(
        (
            Row("input", (), (7, 3)),
            Row("sum", (0,), ((0, 1), True)),
            Row("matmul", (1, 1)),
        ),
        5,
    ),
    Recipe(
        (
            Row("input", (), (3, 1)),
            Row("permute_dims", (0,), (1, 0)),
            Row("matmul", (0, 1)),
            Row("max", (1,), ((0,), False)),
        ),
        5506,
    ),
    Recipe(  # a sum of one term reads where it stands, in other loops too
        (
            Row("input", (), (16, 3)),
            Row("max", (0,), ((0, 1), True)),
            Row("subtract", (1, 0)),
            Row("reshape", (2,), (48,)),
            Row("divide", (3, 1)),
        ),
        644,
    ),
    Recipe(  # what lies in memory for one reader is computed before it
        (
            Row("input", (), (16, 16, 33)),
            Row("subtract", (0, 0)),
            Row("tanh", (0,)),
            Row("cumulative_sum", (1,), 1),
        ),
        300809,
    ),
    Recipe(  # 256 lanes under a mask are more than 8 bits count
        (
            Row("input", (), (7, 16, 3)),
            Row("input", (), (16, 16, 33)),
            Row("take", (0,), ((-3, -1, -2, 2), 2)),
            Row("sigmoid", (2,)),
            Row("broadcast_to", (3,), (2, 7, 16, 4)),
            Row("sqrt", (4,)),
            Row("subtract", (3, 4)),
            Row("where", (5, 6)),
            Row("exp", (7,)),
        ),
        302082,
    ),
    Recipe(  # neither are its first rows
        (
            Row("input", (), (3, 2)),
            Row("input", (), (1, 1, 33)),
            Row("tanh", (0,)),
            Row("slice", (1,), ((0, 1, 2), (0, 1, 1), (29, 33, 1))),
            Row("pad", (0,), ((0, 1), (0, 0))),
            Row("matmul", (3, 4)),
        ),
        91027,
    ),
    Recipe(  # two loops of equal steps around an operand that is written over
        (
            Row("input", (), (1, 2)),
            Row("concat", (0, 0), 1),
            Row("cumulative_max", (1,), 1),
            Row("sum", (1,), ((1,), True)),
            Row("matmul", (3, 1)),
        ),
        5543,
    ),
    Recipe(  # one element of a product's row is not the whole product
        (
            Row("input", (), (1, 7)),
            Row("mean", (0,), ((1,), False)),
            Row("take", (0,), ((-1, 0, -1, 0), 0)),
            Row("broadcast_to", (1,), (7, 1)),
            Row("sum", (3,), ((0,), True)),
            Row("pad", (4,), ((0, 0), (2, 1))),
            Row("matmul", (5, 2)),
        ),
        20261778,
    ),
]


# The same, in the least memory.
TIGHT = [
    Recipe(  # a result is written in two passes, an operand read backwards in the first
        (
            Row("input", (), (5, 1, 33)),
            Row("input", (), (16, 1, 33)),
            Row("square", (1,)),
            Row("cumulative_sum", (2,), 2),
            Row("concat", (1, 1), 1),
            Row("add", (4, 4)),
            Row("mean", (4,), ((0, 1, 2), False)),
            Row("where", (5, 1)),
            Row("minimum", (5, 4)),
            Row("flip", (5,), 0),
            Row("divide", (8, 6)),
        ),
        20263662,
    ),
]


# The same, where what is written outside of a buffer ends the process.
GUARDED = [
    Recipe(  # eight truth values are half a register, and were written as a whole one
        (
            Row("input", (), (2, 3, 13)),
            Row("pad", (0,), ((0, 0), (1, 2), (2, 0))),
            Row("pad", (1,), ((1, 0), (2, 1), (2, 1))),
            Row("cumulative_prod", (2,), 0),
        ),
        33005930,
    ),
]


@pytest.mark.parametrize("recipe", FOUND, ids=lambda r: str(r.seed))
def test_what_was_found_stays_right(recipe: Recipe) -> None:
    assert compare(recipe) == ""


@pytest.mark.parametrize("recipe", TIGHT, ids=lambda r: str(r.seed))
def test_what_was_found_in_little_memory_stays_right(recipe: Recipe) -> None:
    assert compare(recipe, tight=True) == ""


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_agree(seed: int) -> None:
    recipe = draw(seed, most=24)
    found = compare(recipe, optimize=seed % 4 != 3)
    assert not found, f"{found}\n{source(recipe)}"


@pytest.mark.parametrize("seed", range(5000, 5008))
def test_random_graphs_agree_in_little_memory(seed: int) -> None:
    recipe = draw(seed, most=24)
    found = compare(recipe, tight=True)
    assert not found, f"{found}\n{source(recipe)}"


def test_shrinking_keeps_what_fails() -> None:
    recipe = draw(3)

    def fails(r: Recipe) -> bool:
        return any(row.op == "concat" for row in r.rows) or len(r.rows) > 6

    assert len(shrink(recipe, fails).rows) <= 7
    assert eval(source(recipe)) == recipe


@pytest.mark.parametrize("recipe", GUARDED, ids=lambda r: str(r.seed))
def test_known_recipes_that_wrote_outside(recipe: Recipe) -> None:
    assert not compare(recipe, arenas=("guard", "poison"))
