"""Readers of trees, CoNLL-U, word|tag and plain text; files that are wrong; ListOps."""

from __future__ import annotations

import copy
import hashlib
import pickle
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.base.errors import ArgumentError, DataFileError
from treadle.data import (
    Row,
    Sentence,
    Tagged,
    Tree,
    generate_listops,
    listops_value,
    parse_conllu,
    read_conllu,
    read_lines,
    read_tagged,
    read_text,
    read_trees,
)
from treadle.data import text as source_module

ATOMS = st.text(min_size=1, max_size=4).filter(
    lambda t: not set(t) & set("() \t\n\r\v\f") and t.isprintable()
)
TREES = st.recursive(
    st.builds(lambda label, word: Tree(label, word=word), ATOMS, ATOMS),
    lambda trees: st.builds(
        Tree, st.one_of(ATOMS, st.just("")), st.lists(trees, min_size=1, max_size=4)
    ),
    max_leaves=12,
)
Cases = list[tuple[bytes, str]]


def check_wrong_files(
    read: Callable[..., Any], path: Path, cases: list[tuple[bytes, int, str]]
) -> None:
    """Each content is refused at its line, in words that name the file."""
    for content, line, message in cases:
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=message) as caught:
            list(read(path))
        assert str(caught.value).startswith(f"{path}:{line}: "), content


# -- trees -----------------------------------------------------------------------------


@given(TREES)
def test_a_tree_is_its_text(tree: Tree) -> None:
    text = str(tree)
    again = Tree.parse(text)
    assert again == tree and hash(again) == hash(tree) and str(again) == text
    assert eval(repr(tree), {"Tree": Tree}) == tree
    assert Tree.parse(text.replace("(", "\n( ").replace(")", " ) ")) == tree
    for made in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert made == tree
    nodes = list(tree.nodes())
    place = {id(node): k for k, node in enumerate(nodes)}
    assert all(place[id(c)] < k for k, n in enumerate(nodes) for c in n.children)
    assert nodes[-1] is tree and [n for n in nodes if n.word] == tree.leaves()


def test_trees_that_differ() -> None:
    texts = ["(a b)", "(a c)", "(b b)", "(a (a b))", "(a (a b) (a b))", "(a (b b))"]
    trees = [Tree.parse(text) for text in texts]
    assert all((a == b) == (a is b) for a in trees for b in trees)
    assert trees[0] != "(a b)" and len(set(trees)) == len(texts)


def test_a_tree_never_changes() -> None:
    tree = Tree("a", word="b")
    for change in (lambda: setattr(tree, "label", "c"), lambda: delattr(tree, "word")):
        with pytest.raises(AttributeError, match="never changes"):
            change()
    for arguments, message in (
        (("a",), "over trees or over one word"),
        (("a", (tree,), "b"), "over trees or over one word"),
        (("a", ("b",)), "are Trees"),
        (("a b", (tree,)), "cannot stand"),
        (("a", (), "("), "-LRB-"),
        (("a", (), ""), "cannot stand"),
        (("", (), "b"), "cannot stand"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Tree(*arguments)  # type: ignore[arg-type]


def test_depth_is_bounded_by_memory_alone() -> None:
    depth = 40_000  # far more than Python's calls go
    text = "(a " * depth + "(b c)" + " (d e))" * depth
    tree, again = Tree.parse(text), Tree.parse(text)
    assert str(tree) == text and tree == again and tree.height == depth
    assert len(tree.words()) == depth + 1 and hash(tree) == hash(again)
    assert sum(1 for _ in tree.nodes()) == 2 * depth + 1
    assert copy.deepcopy(tree) == tree


def test_treebanks(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    penn = "( (S (NP (PRP It))\n     (VP (VBZ works)) (. .)) )\n\n"
    path.write_bytes(b"\xef\xbb\xbf" + penn.replace("\n", "\r\n").encode())
    (tree,) = read_trees(path)
    assert tree.label == "" and tree.children[0].label == "S"
    assert tree.words() == ["It", "works", "."]
    path.write_text("(3 (2 Two\xa0thirds) (4 (2 of) (3 it)))(1 no)\n(2 -LRB-)")
    trees = list(read_trees(path))
    assert [t.label for t in trees] == ["3", "1", "2"]
    assert trees[0].words() == ["Two\xa0thirds", "of", "it"]


def test_trees_that_are_wrong(tmp_path: Path) -> None:
    cases = [
        (b"(a b)\n(a (b c)\n\n", 2, "before the bracket that opens here is closed"),
        (b"(a b))", 1, "closes that none opened"),
        (b"\na b", 2, "'a' stands outside"),
        (b"(a b c)", 1, "a word has a neighbor"),
        (b"(a b (c d))", 1, "a word has a neighbor"),
        (b"(a (c d)\nb)", 2, "each word takes a bracket"),
        (b"((c d) b)", 1, "a word has a neighbor under the label ''"),
        (b"(a b)()", 1, "neither a word nor a tree"),
        (b"(a)", 1, "a leaf is"),
        (b"(a b)\n(a \xff)", 2, "byte 4 of the line is not UTF-8"),
    ]
    check_wrong_files(read_trees, tmp_path / "trees.txt", cases)
    with pytest.raises(DataFileError, match="No such file"):
        next(read_trees(tmp_path / "none"))
    with pytest.raises(DataFileError, match="directory"):
        next(read_trees(tmp_path))
    for text, message in (("", "0 trees"), ("(a b)(a b)", "2 trees"), ("(", "text:1")):
        with pytest.raises(ArgumentError, match=message):
            Tree.parse(text)


def test_items_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_ITEM", 100)
    path = tmp_path / "long.txt"
    row = "\t".join(["_"] * 10)
    cases: list[tuple[Callable[..., Any], str, int, str]] = [
        (read_lines, "a\n" + "b" * 101, 2, "the line is longer than 100 bytes"),
        (read_trees, "(a b)\n(a\n" + "(c\n" * 60, 2, "the tree is longer"),
        (read_conllu, "\n" + f"{row}\n" * 10, 2, "the sentence is longer"),
    ]
    for read, text, line, message in cases:
        path.write_text(text)
        with pytest.raises(DataFileError, match=message) as caught:
            list(read(path))
        assert f"{path}:{line}: " in str(caught.value)
    path.write_text("(a b)\n" * 100)  # each is short
    assert len(list(read_trees(path))) == 100


# -- CoNLL-U ---------------------------------------------------------------------------

TEXT = """\
# sent_id = 1
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\tSpaceAfter=No
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t0:root\t_
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""

PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
COLUMN = st.text(PRINTABLE, min_size=1, max_size=5)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """Words with ranges before and empty nodes after some of them."""
    count = draw(st.integers(1, 6))
    rows: list[Row] = []
    covered = 0

    def row(number: str, head: str) -> Row:
        form, lemma, misc = draw(COLUMN), draw(COLUMN), draw(COLUMN)
        return Row(number, form, lemma, head=head, misc=misc)

    for k in range(count + 1):
        if k:
            if k > covered and draw(st.booleans()):
                covered = draw(st.integers(k, count))
                rows.append(row(f"{k}-{covered}", "_"))
            rows.append(row(str(k), str(draw(st.integers(0, count)))))
        empty = draw(st.integers(0, 2))
        rows += [row(f"{k}.{n}", "_") for n in range(1, empty + 1)]
    comments = draw(st.lists(COLUMN.map("# {}".format), max_size=2))
    return Sentence(tuple(rows), tuple(comments))


@settings(deadline=None)
@given(st.lists(sentences(), max_size=3))
def test_conllu_is_its_text(whole: list[Sentence]) -> None:
    text = "\n".join(map(str, whole))
    assert parse_conllu(text, ranges=True, empty=True) == whole
    assert parse_conllu(text.replace("\n", "\r\n"), ranges=True, empty=True) == whole
    for plain, full in zip(parse_conllu(text), whole, strict=True):
        assert plain == full.only(ranges=False, empty=False)
        assert plain.column("id") == [str(k + 1) for k in range(len(plain.rows))]
        assert parse_conllu(str(plain)) == [plain]


def test_conllu(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TEXT)
    first, second = read_conllu(path)
    assert first.words == ["I", "do", "n't", "."] and second.words == ["Yes"]
    assert first.comments == ("# sent_id = 1", "# text = I don't.")
    assert first.column("upos") == ["PRON", "AUX", "PART", "PUNCT"]
    assert first.column("head") == ["3", "3", "0", "3"]
    ranged, _ = read_conllu(path, ranges=True)
    assert ranged.column("id") == ["1", "2-3", "2", "3", "4"]
    both, _ = read_conllu(path, ranges=True, empty=True)
    assert both.words == ["I", "don't", "do", "n't", "go", "."]
    assert "\n".join(map(str, read_conllu(path, ranges=True, empty=True))) == TEXT
    with pytest.raises(ArgumentError, match="columns: id form lemma"):
        first.column("word")


def line(*columns: str) -> str:
    return "\t".join([*columns, *"_" * (10 - len(columns))]) + "\n"


def test_conllu_that_is_wrong(tmp_path: Path) -> None:
    word = line("1", "a")
    cases = [
        ("\n1 a _\n", 2, "there are 1 columns, not 10"),
        (word + "# late\n", 2, "a comment stands among"),
        (line("1", ""), 1, "a column is empty"),
        (word + line("3", "b"), 2, "the word after 1 is 2, not '3'"),
        (line("0", "a"), 1, "the word after 0 is 1, not '0'"),
        (line("x", "a"), 1, "not 'x'"),
        (line("٣", "a"), 1, "not"),
        (line("1-2", "a") + word, 1, "the range 1-2 does not fit 1 words"),
        (line("1-2", "a") + line("2", "b"), 1, "the range 1-2 does not fit"),
        (line("1-1", "a") + line("1-1", "a") + word, 2, "has to stand before word 1"),
        (word + line("1.2", "b"), 2, "the empty node is 1.1, not 1.2"),
        (word + line("2.1", "b"), 2, "the word after 1 is 2, not '2.1'"),
        (line("1", "a", "_", "_", "_", "_", "2"), 1, "the head is 0 to 1 or _"),
        (line("1", "a", "_", "_", "_", "_", "-1"), 1, "the head is 0 to 1 or _"),
        (word + "\n" + line("2", "a"), 3, "the word after 0 is 1, not '2'"),
    ]
    encoded = [(text.encode(), number, message) for text, number, message in cases]
    check_wrong_files(read_conllu, tmp_path / "a.conllu", encoded)
    with pytest.raises(ArgumentError, match="row 2: the word after 1 is 2"):
        Sentence((Row("1", "a"), Row("3", "b")))
    with pytest.raises(ArgumentError, match="a tab"):
        Sentence((Row("1", "a\tb"),))
    with pytest.raises(ArgumentError, match="at least one row"):
        Sentence(())
    with pytest.raises(ArgumentError, match="a comment is one line from #"):
        Sentence((Row("1", "a"),), ("text",))


# -- word|tag and plain text -----------------------------------------------------------


def test_tagged_words(tmp_path: Path) -> None:
    path = tmp_path / "tagged.txt"
    path.write_bytes("Oslo|LOC a|b|O\xa0|X  ||O\t.|O\r\n\r\nx|y".encode())
    assert list(read_tagged(path)) == [
        Tagged(("Oslo", "a|b|O\xa0", "|", "."), ("LOC", "X", "O", "O")),
        Tagged(("x",), ("y",)),
    ]
    path.write_text("a/b c/d")
    assert list(read_tagged(path, "/")) == [Tagged(("a", "c"), ("b", "d"))]
    cases = [
        (b"a|b\nc|d e", 2, "item 2, 'e', is not word.tag"),
        (b"|b", 1, "item 1"),
        (b"a|", 1, "another separator is given"),
        (b"\xc3|a", 1, "not UTF-8"),
    ]
    check_wrong_files(read_tagged, path, cases)
    for separator in ("", " ", "\t|"):
        with pytest.raises(ArgumentError, match="does not separate"):
            read_tagged(path, separator)


def test_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plain.txt"
    path.write_bytes("a b\x0c\x85\u2028c\r\n\n d".encode())
    assert list(read_lines(path)) == ["a b\x0c\x85\u2028c", "", " d"]
    assert read_text(path) == "a b\x0c\x85\u2028c\n\n d"
    path.write_bytes(b"")
    assert list(read_lines(path)) == [] and read_text(path) == ""
    monkeypatch.setattr("treadle.data.text._MAX_TEXT", 10)
    path.write_text("12345\n123456")
    with pytest.raises(DataFileError, match="more than 10 characters") as caught:
        read_text(path)
    assert f"{path}:2: " in str(caught.value) and "read_lines" in str(caught.value)


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["(a b)", "1\ta" + "\t_" * 8, "a|b"]))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, lead: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(lead.encode() + content)
    for read in (read_trees, read_conllu, read_tagged, read_lines):
        try:
            list(read(path))  # type: ignore[operator]
        except DataFileError as error:
            assert str(error).startswith(f"{path}:")


# -- ListOps ---------------------------------------------------------------------------


def test_listops_never_change() -> None:
    trees = generate_listops(200, seed=1)
    assert generate_listops(100, seed=1) == trees[:100]
    assert generate_listops(100, seed=-1) != trees[:100]
    digest = hashlib.sha256("".join(map(str, trees)).encode())
    assert digest.hexdigest()[:16] == DIGEST


DIGEST = "bb28b675bc754c61"


@settings(deadline=None)
@given(st.integers(0, 2**70), st.integers(2, 6), st.integers(1, 4))
def test_labels_are_values(seed: int, arguments: int, depth: int) -> None:
    rules: dict[str, Callable[[list[int]], int]] = {
        "MAX": max,
        "MIN": min,
        "MED": lambda values: int(statistics.median(values)),
        "SM": lambda values: sum(values) % 10,
    }
    for tree in generate_listops(5, seed, max_arguments=arguments, max_depth=depth):
        assert listops_value(tree) == int(tree.label) and tree.height <= depth
        for node in tree.nodes():
            if node.word is not None:
                assert node.word == node.label and len(node.word) in (1, 2, 3)
                continue
            name, *rest = node.children
            assert 2 <= len(rest) <= arguments
            values = [int(child.label) for child in rest]
            assert int(node.label) == rules[str(name.word)](values)


def test_listops_are_as_the_paper_draws_them() -> None:
    trees = generate_listops(2000, seed=4)
    names = Counter(n.children[0].word for t in trees for n in t.nodes() if n.children)
    digits = Counter(leaf.word for t in trees for leaf in t.leaves())
    total = names.total()
    assert all(abs(names[name] / total - 0.25) < 0.02 for name in names)
    assert len(digits) == 14 and max(t.height for t in trees) > 8
    assert all(t.height == 1 for t in generate_listops(50, nesting=0.0))


def test_wrong_listops() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"count": -1}, "count is a number of trees"),
        ({"count": 1, "max_arguments": 1}, "max_arguments is at least 2"),
        ({"count": 1, "max_depth": 0}, "max_depth is at least 1"),
        ({"count": 1, "nesting": 0.3}, "no end"),
    ]
    for arguments, message in cases:
        with pytest.raises(ArgumentError, match=message):
            generate_listops(**arguments)
    for text in (
        "(3 (MAX MAX))", "(3 (3 3) (MAX MAX))", "(3 (MAX MAX) (MAX MAX) (3 3))",
        "(3 (3 3))", "(12 12)", "(MAX MAX)", "(3 (MAX MAX) (a b))",
    ):  # fmt: skip
        with pytest.raises(ArgumentError):
            listops_value(Tree.parse(text))
