"""A body for one row, and what its arguments are."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.graph.body import Body
from treadle.graph.rows import batched


@dataclass(frozen=True)
class Part:
    """A body for one row, what its arguments are, and which of them are rows.

    A source is ("input", k), ("output", k), ("kept", k), ("cotangent", k),
    ("frontier", k) or ("lasting", k), the cotangent of an input: values of a row that
    other parts made.
    """

    body: Body
    sources: tuple[tuple[str, int], ...]
    has_rows: tuple[bool, ...]

    def at(self, n: int) -> Body:
        """The body for n rows."""
        body = batched(self.body, self.has_rows, n)
        assert body is not None, f"{self.body.name} is not done by rows"
        return body
