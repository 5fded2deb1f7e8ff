"""Products in the order they are done in, without a node that nobody needs."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.contract import Contract
from treadle.ops.movement import PermuteDims
from treadle.rewrite.expand import write_out
from treadle.rewrite.straighten import straighten


def drawn(*shape: int) -> Any:
    return td.asarray(np.random.default_rng(len(shape)).random(shape, np.float32))


def written(y: Tensor) -> Tensor:
    return write_out([], {0: y}, reach([y]), lambda op: False)[0]


def test_what_is_in_order_is_not_made_again() -> None:
    y = written(td.tanh(drawn(3, 4) @ drawn(5, 4).T) @ drawn(5, 2))
    specs = [n.op.spec for n in reach([y]) if isinstance(n.op, Contract)]
    assert len(specs) == 2 and straighten({0: y}, reach([y]))[0] is y


def test_permutations_of_permuted_operands_are_one() -> None:
    x, w = drawn(3, 4), drawn(5, 4)
    y = written(Contract("ab,cb->ac")(x, w).T + 1.0)
    made = straighten({0: y}, reach([y]))[0]
    nodes = reach([made])
    for node in nodes:
        if isinstance(node.op, PermuteDims):
            assert not isinstance(node.inputs[0].op, (PermuteDims, Contract))
    (product,) = [n for n in nodes if isinstance(n.op, Contract)]
    assert product.type.shape == (5, 3)
    np.testing.assert_allclose(made.numpy(), (x @ w.T).T.numpy() + 1, rtol=1e-6)


def test_equal_products_of_equal_views_are_one() -> None:
    x, w = drawn(3, 4), drawn(5, 4)
    a, b = Contract("ab,cb->ac")(x, w), Contract("ab,bc->ac")(x, w.T)
    nodes = reach([written(a * td.exp(b))])
    assert sum(isinstance(n.op, Contract) for n in nodes) == 1


def test_what_an_operand_was_permuted_from_is_the_node_it_was() -> None:
    x, w = drawn(3, 4), drawn(4, 5)
    y = Contract("ab,cb->ac")(x, w.T) + (w * 2.0).sum(1)[:3].reshape((3, 1))
    with td.options(optimize=False):
        np.testing.assert_allclose(
            y.numpy(), x.numpy() @ w.numpy() + 2 * w.numpy().sum(1)[:3, None], rtol=1e-6
        )
    z = written(Contract("ab,cb->ac")(x, td.exp(w).T))
    assert sum(n.op.name.lower() == "exp" for n in reach([z])) == 1
