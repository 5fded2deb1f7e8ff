"""The statements of Owl's document on pictures: sin(x * y) with y broadcast."""

from __future__ import annotations

import treadle as td


def test_s20_labels_tell_op_references_and_shape() -> None:
    x, y = td.ones((8, 4)), td.ones((1, 4))
    picture = td.to_dot(td.sin(x * y))
    for part in ("Sin", "Multiply", "8, 4", "1, 4", "refs"):
        assert part in picture, part
