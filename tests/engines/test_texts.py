"""Texts of functions lie on disk by what they are written from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import treadle as td
from tests.programs import kernels_of, program_of
from treadle.engines.native.codegen import code, texts
from treadle.engines.native.codegen.contraction import pack
from treadle.engines.native.codegen.contraction.machine import machine
from treadle.engines.native.codegen.contraction.text import FunctionText, kept
from treadle.engines.native.codegen.emit import emit
from treadle.loops.kernel import Kernel

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the cache is of POSIX")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREADLE_CACHE", "1")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    return tmp_path / "kernels"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What kernels are written out while the test runs."""
    found: list[Any] = []

    def noting(kernel: Kernel, name: str) -> str:
        found.append(kernel)
        return emit(kernel, name)

    monkeypatch.setattr(code, "emit", noting)
    return found


def kernel() -> Kernel:
    x = td.param("x", init=[1.0, 2.0, 3.0])
    (launch,) = kernels_of(program_of(td.sqrt(td.exp(x) + 0.5) * x))
    return launch.kernel


def text_of(k: Kernel) -> FunctionText:
    """As another process finds it, which remembers nothing."""
    code._text.cache_clear()
    return code._text(k)


def test_a_text_is_written_by_the_first_process_alone(
    place: Path, written: list[Any]
) -> None:
    k = kernel()
    first = text_of(k)
    assert text_of(k) == first and len(written) == 1
    assert f"@{first.name}(" in first.text


def test_a_damaged_or_missing_one_is_written_again(
    place: Path, written: list[Any]
) -> None:
    k = kernel()
    first = text_of(k)
    (lying,) = [p for p in place.rglob("*") if p.is_file()]
    data = bytearray(lying.read_bytes())
    data[-5] ^= 1
    lying.write_bytes(data)
    assert text_of(k) == first and len(written) == 2
    lying.unlink()
    assert text_of(k) == first and len(written) == 3


def test_another_host_or_another_state_of_the_package_has_texts_of_its_own(
    place: Path, written: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    k = kernel()
    text_of(k)
    monkeypatch.setattr(texts, "host", lambda: "another host")
    text_of(k)
    assert len(written) == 2
    sources = texts.sources()
    assert "engines/ __init__.py" in sources and "emit.py" in sources
    monkeypatch.setattr(texts, "sources", lambda: sources + " new.py 1 1")
    text_of(k)
    text_of(k)
    assert len(written) == 3


def test_without_a_cache_or_files_to_tell_by_it_is_written_each_time(
    place: Path, written: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    k = kernel()
    monkeypatch.setattr(texts, "sources", lambda: "")
    first = text_of(k)
    monkeypatch.undo()
    monkeypatch.setenv("TREADLE_CACHE", "0")
    assert text_of(k) == first == text_of(k)
    assert not [p for p in place.rglob("*") if p.is_file()]


def test_the_stamps_change_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "a.py"
    file.write_text("x = 1")
    before = list(texts._stamps(str(tmp_path)))
    assert list(texts._stamps(str(tmp_path))) == before
    file.write_text("x = 12")
    assert list(texts._stamps(str(tmp_path))) != before


def test_what_an_epilogue_of_this_process_writes_is_not_kept_on_disk(
    place: Path,
) -> None:
    count = 0

    def make() -> FunctionText:
        nonlocal count
        count += 1
        return FunctionText("f", "text")

    for fact in ("", "", "a fact", "a fact"):
        assert kept({}, "key", fact, make) == FunctionText("f", "text")
    assert count == 3


def test_pieces_of_products_lie_there_too(place: Path) -> None:
    plain = pack.pack_rows.__wrapped__.__wrapped__  # type: ignore[attr-defined]
    pack.pack_rows.cache_clear()  # type: ignore[attr-defined]
    for _ in range(2):
        given = machine(), "float", "float"
        assert pack.pack_rows(*given) == plain(*given)
        pack.pack_rows.cache_clear()  # type: ignore[attr-defined]
    assert len([p for p in place.rglob("*") if p.is_file()]) == 1
