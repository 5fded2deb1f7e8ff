"""Bracketed trees: (label child child ...), and (label word) at the leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.data.text import Source
from treadle.io.files import PathLike

# Only these separate: corpora have words with a no-break space inside.
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
_ATOM = re.compile(r"[^()\s]+", re.ASCII)


class Tree:
    """A label over trees, or over one word; immutable, compared by what it holds.

    No method recurses, so depth is bounded by memory alone.

    >>> tree = Tree.parse("(4 (2 It) (3 (3 works) (2 .)))")
    >>> tree.label, tree.words(), tree.height
    ('4', ['It', 'works', '.'], 2)
    >>> [node.label for node in tree.nodes()], str(tree.children[1])
    (['2', '3', '2', '3', '4'], '(3 (3 works) (2 .))')
    """

    __slots__ = ("__weakref__", "children", "label", "word")
    label: str
    children: tuple[Tree, ...]
    word: str | None

    def __init__(
        self, label: str, children: tuple[Tree, ...] = (), word: str | None = None
    ) -> None:
        children = tuple(children)
        if (word is None) == (not children):
            raise ArgumentError(f"{label!r} stands over trees or over one word")
        if not all(isinstance(child, Tree) for child in children):
            raise ArgumentError(f"what stands under {label!r} are Trees")
        # Over trees a label may be empty; over a word, the word would be taken for it.
        atoms = [word, label] if word is not None else [label or "-"]
        for atom in atoms:
            if not _ATOM.fullmatch(atom):
                raise ArgumentError(
                    f"{atom!r} cannot stand in a tree",
                    hint="neither spaces nor brackets: write ( as -LRB-, ) as -RRB-",
                )
        _fill(self, label, children, word)

    @classmethod
    def parse(cls, text: str) -> Tree:
        """The one tree in a text; `str` is the inverse."""
        trees = list(_parsed(Source.text(text)))
        if len(trees) != 1:
            raise ArgumentError(f"the text holds {len(trees)} trees, not one")
        return trees[0]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Tree never changes; make another")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Tree never changes; make another")

    # -- its parts -----------------------------------------------------------------

    def nodes(self) -> Iterator[Tree]:
        """Every node, children before their parent, from left to right."""
        stack = [(self, False)]
        while stack:
            node, entered = stack.pop()
            if entered or not node.children:
                yield node
            else:
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(node.children))

    def leaves(self) -> list[Tree]:
        """The nodes over words, from left to right."""
        leaves, stack = [], [self]
        while stack:
            node = stack.pop()
            if node.word is not None:
                leaves.append(node)
            stack.extend(reversed(node.children))
        return leaves

    def words(self) -> list[str]:
        """The words of the leaves."""
        return [leaf.word or "" for leaf in self.leaves()]

    @property
    def height(self) -> int:
        """The edges of the longest way down to a leaf."""
        level, count = [self], -1
        while level:
            level = [child for node in level for child in node.children]
            count += 1
        return count

    # -- as a value ----------------------------------------------------------------

    def __str__(self) -> str:
        parts: list[str] = []
        stack: list[Tree | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                parts.append(")")
                continue
            parts.append(f" ({node.label}")
            if node.word is not None:
                parts.append(f" {node.word}")
            stack.append(None)
            stack.extend(reversed(node.children))
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"Tree.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        stack = [(self, other)]
        while stack:
            a, b = stack.pop()
            if a is b:
                continue
            if (a.label, a.word, len(a.children)) != (b.label, b.word, len(b.children)):
                return False
            stack.extend(zip(a.children, b.children, strict=True))
        return True

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Callable[[str], Tree], tuple[str]]:
        return Tree.parse, (str(self),)  # pickle and copy would recurse


_set_label = vars(Tree)["label"].__set__
_set_children = vars(Tree)["children"].__set__
_set_word = vars(Tree)["word"].__set__


def _fill(tree: Tree, label: str, children: tuple[Tree, ...], word: str | None) -> Tree:
    _set_label(tree, label)
    _set_children(tree, children)
    _set_word(tree, word)
    return tree


def read_trees(path: PathLike) -> Iterator[Tree]:
    """The trees of a file, as the Penn and the sentiment treebank write them.

    A tree may take several lines, a line hold several trees. Raises DataFileError, with
    the number of the line.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".mrg") as file:
    ...     _ = file.write("( (S (NP (PRP It))\\n     (VP (VBZ works))))")
    ...     file.flush()
    ...     [str(tree) for tree in read_trees(file.name)]
    ['( (S (NP (PRP It)) (VP (VBZ works))))']
    """
    return _parsed(Source.file(path))


class _Open:
    """A bracket that is not closed yet."""

    __slots__ = ("children", "label", "line", "word")

    def __init__(self, line: int) -> None:
        self.line = line
        self.label: str | None = None
        self.word: str | None = None
        self.children: list[Tree] = []


def _parsed(source: Source) -> Iterator[Tree]:
    """The trees of numbered lines."""
    stack: list[_Open] = []
    size = 0
    for number, line in source:
        size += len(line)
        for token in _TOKEN.findall(line):
            if token == "(":
                if not stack:
                    size = len(line)
                elif stack[-1].word is not None:
                    raise _bare_word(source, number, stack[-1])
                stack.append(_Open(number))
            elif token != ")":
                _atom(source, number, stack, token)
            elif not stack:
                raise source.wrong(
                    number,
                    "a bracket closes that none opened",
                    hint="a bracket as a word is written -RRB-",
                )
            else:
                tree = _closed(source, number, stack.pop())
                if stack:
                    stack[-1].children.append(tree)
                else:
                    yield tree
        if stack:
            source.check_size(stack[0].line, size, "the tree")
    if stack:
        raise source.wrong(
            stack[-1].line,
            "the file ends before the bracket that opens here is closed",
            hint="the file is cut off, or a ) is missing; ( as a word is -LRB-",
        )


def _atom(source: Source, number: int, stack: list[_Open], token: str) -> None:
    """Take a label or a word."""
    if not stack:
        raise source.wrong(
            number,
            f"{token[:40]!r} stands outside of any bracket",
            hint="a tree is (label child child ...), a leaf (label word)",
        )
    top = stack[-1]
    if top.label is None and not top.children:
        top.label = token
    elif top.word is None and not top.children:
        top.word = token
    else:
        raise _bare_word(source, number, top)


def _bare_word(source: Source, number: int, top: _Open) -> Exception:
    return source.wrong(
        number,
        f"a word has a neighbor under the label {top.label or ''!r}",
        hint="each word takes a bracket and a label of its own: (label word)",
    )


def _closed(source: Source, number: int, top: _Open) -> Tree:
    if top.word is None and not top.children:
        raise source.wrong(
            number,
            f"({top.label or ''}) holds neither a word nor a tree",
            hint="a leaf is (label word)",
        )
    tree = Tree.__new__(Tree)
    return _fill(tree, top.label or "", tuple(top.children), top.word)
