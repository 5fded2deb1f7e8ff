"""What parameters that are always updated together count in common."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

O = td.optim  # noqa: E741


def pair() -> tuple[td.Parameter, td.Parameter]:
    return td.param("a", init=[1.0, 2.0]), td.param("b", init=[3.0, 5.0])


def own(optimizer: Any) -> list[str]:
    """The Variables that count."""
    return [v.name for v in optimizer.states() if "correction" in v.name]


def test_parameters_that_begin_together_count_together() -> None:
    a, b = pair()
    optimizer = O.Adam(lr=0.1)
    for _ in range(3):
        optimizer.step((a * b).sum())
    assert own(optimizer) == ["a/correction1", "a/correction2"]
    found = optimizer.state_dict()
    for k in "12":
        assert found[f"a/correction{k}"] == found[f"b/correction{k}"] > 0


def test_rules_of_other_numbers_count_apart() -> None:
    a, b = pair()
    groups = [{"params": [a], "betas": (0.5, 0.9)}, {"params": [b]}]
    optimizer = O.Adam(groups, lr=0.1)
    optimizer.step((a * b).sum())
    assert len(own(optimizer)) == 4
    assert optimizer.state_dict()["a/correction1"] == 0.5


def steps(a: Any, b: Any, optimizer: Any) -> list[Any]:
    """Together, one alone, together again, with a traced step at the end."""
    for k in range(7):
        if k in (3, 4):
            optimizer.update_subset([a], (a * b).sum())
        else:
            optimizer.step((a * b * (k + 1.0)).sum())

    @td.function
    def train() -> td.Tensor:
        return optimizer.step((a * b).sum())

    train()
    train()
    return [a.numpy(), b.numpy()]


def test_parameters_that_part_count_on_by_themselves() -> None:
    a, b = pair()
    optimizer = O.Adam(lr=0.1)
    found = steps(a, b, optimizer)
    states = optimizer.state_dict()
    assert len(own(optimizer)) == 4
    np.testing.assert_allclose(states["a/correction1"], 1 - 0.9**9)
    np.testing.assert_allclose(states["b/correction1"], 1 - 0.9**7)
    a, b = pair()
    apart = [O.Adam([p], lr=0.1) for p in (a, b)]  # that never had anything in common
    for k in range(9):
        loss = (a * b * (k + 1.0 if k < 7 else 1.0)).sum()
        if k in (3, 4):
            loss = (a * b).sum()
        grads = td.grad(loss, [a, b])
        for p, g in zip((a, b), grads, strict=True):
            if p is a or k not in (3, 4):
                p.grad = g
        for p, optimizer in zip((a, b), apart, strict=True):
            if p is a or k not in (3, 4):
                optimizer.step()
                optimizer.zero_grad()
    for x, p in zip(found, (a, b), strict=True):
        np.testing.assert_allclose(p.numpy(), x, rtol=1e-6)


def test_a_function_counts_for_each_parameter() -> None:
    a, b = pair()
    optimizer = O.Adam(lr=0.1)
    optimizer.step((a * b).sum())
    assert len(own(optimizer)) == 2

    @td.function
    def train() -> td.Tensor:
        return optimizer.step((a * b).sum())

    train()
    assert len(own(optimizer)) == 4
    optimizer.step((a * b).sum())
    found = optimizer.state_dict()
    np.testing.assert_allclose(found["a/correction1"], 1 - 0.9**3)
    np.testing.assert_allclose(found["b/correction1"], 1 - 0.9**3)


def test_states_that_are_loaded_count_together_where_they_are_equal() -> None:
    a, b = pair()
    first = O.Adam(lr=0.1)
    for _ in range(3):
        first.step((a * b).sum())
    known = first.state_dict()
    again = O.Adam(lr=0.1)
    again.load_state_dict(known)
    again.step((a * b).sum())
    assert len(own(again)) == 2
    known["b/correction1"] = np.array(0.5)
    again.load_state_dict(known)  # over what is in common
    assert again.state_dict()["a/correction1"] != 0.5
    assert again.state_dict()["b/correction1"] == 0.5
    other = O.Adam(lr=0.1)
    other.load_state_dict(known)
    other.step((a * b).sum())
    assert len(own(other)) == 3
    np.testing.assert_allclose(other.state_dict()["b/correction1"], 0.55)


def test_beginning_anew() -> None:
    a, b = pair()
    optimizer = O.Adam(lr=0.1)
    optimizer.step((a * b).sum())
    optimizer.restart()
    assert not any(optimizer.state_dict()[f"{p}/correction1"] for p in "ab")
    optimizer.step((a * b).sum())
    np.testing.assert_allclose(optimizer.state_dict()["b/correction1"], 0.1)
