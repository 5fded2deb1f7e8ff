"""Private words in identifiers and names that say nothing stay as few as asked."""

from __future__ import annotations

import pytest

from tests import words


def test_names_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main(["--most-words", "60", "--most-variables", "40"]) == 0, (
        capsys.readouterr().out
    )
    assert words.main(["--most-words", "1"]) == 1, "it fails above so many"
