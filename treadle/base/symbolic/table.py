"""Tables of integers of sizes: guards and expressions as rows, for the core.

Values are numbered: first the inputs, then that of each row which is no guard. A row is
an operator and two operands: numbers of values, or integers as they are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.base.arrays import Numbers
from treadle.core import native

# As core/sizes.cpp has them: an integer; integers of two values, or of one and an
# integer.
CONSTANT, ADD, OFFSET, MULTIPLY, SCALE, QUOTIENT, REMAINDER = range(7)
LEAST, MOST, EXCEEDS, SHIFT_LEFT, SHIFT_RIGHT, BITS, DIVISOR = range(7, 14)
# What a function makes of values, an integer or an object: so many numbers of values
# from an operand on, the function's first. And an object by its place.
CALL, NUMBER, OBJECT = range(14, 17)
# Guards on a value, by an integer or another value.
AT_LEAST, AT_MOST, EQUAL, UNEQUAL, SAME = range(17, 22)

BITS_OF_ALL = 63
LIMIT = 1 << BITS_OF_ALL  # of all integers


def _shifted(x: int, by: int) -> int:
    if x and by > BITS_OF_ALL:
        raise OverflowError
    return x << by if x or by < 0 else 0


def _bits(x: int, _: int) -> int:
    return x.bit_length()


# Of two values.
VALUES: dict[int, Callable[[int, int], int]] = {
    ADD: operator.add,
    MULTIPLY: operator.mul,
    QUOTIENT: operator.floordiv,
    REMAINDER: operator.mod,
    LEAST: min,
    MOST: max,
    EXCEEDS: operator.gt,
    SHIFT_LEFT: _shifted,
    SHIFT_RIGHT: operator.rshift,
    DIVISOR: math.gcd,
    SAME: operator.eq,
}
# Of a value and an integer.
INTEGERS: dict[int, Callable[[int, int], int]] = {
    OFFSET: operator.add,
    SCALE: operator.mul,
    BITS: _bits,
    AT_LEAST: operator.ge,
    AT_MOST: operator.le,
    EQUAL: operator.eq,
    UNEQUAL: operator.ne,
}


@dataclass(frozen=True)
class IntegerTable:
    """Rows over `inputs` integers and the `objects`, and the values that are `wanted`.

    rows: [rows, 3]; operands: of rows that call functions, one after the other.
    """

    inputs: int
    objects: tuple[Any, ...]
    rows: Numbers
    operands: Numbers
    wanted: Numbers

    def __call__(self, sizes: Sequence[int]) -> list[Any] | None:
        """What is wanted for some sizes; None where a guard does not hold, or where an
        integer takes more than 64 bits or is a quotient by nothing.
        """
        if len(sizes) != self.inputs:
            return None
        if native is None:
            return self._interpreted(sizes)
        return native.evaluate(
            self.rows, self.operands, self.wanted, self.objects, sizes
        )

    def _interpreted(self, sizes: Sequence[int]) -> list[Any] | None:
        values: list[Any] = [*sizes]
        operands = self.operands.tolist()
        for op, a, b in self.rows.tolist():
            try:
                result = self._row(op, a, b, values, operands)
            except (ArithmeticError, ValueError):
                return None
            if op >= AT_LEAST:
                if not result:
                    return None
                continue
            if op not in (NUMBER, OBJECT) and not -LIMIT <= result < LIMIT:
                return None
            values.append(result)
        return [values[k] for k in self.wanted.tolist()]

    def _row(
        self, op: int, a: int, b: int, values: list[Any], operands: list[int]
    ) -> Any:
        if op == CONSTANT:
            return a
        if op == OBJECT:
            return self.objects[a]
        if op in (CALL, NUMBER):
            function, *arguments = [values[k] for k in operands[a : a + b]]
            result = function(*arguments)
            return operator.index(result) if op == CALL else result
        if op in VALUES:
            return VALUES[op](values[a], values[b])
        return INTEGERS[op](values[a], b)
