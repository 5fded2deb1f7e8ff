"""Dependency trees by transitions, with values read in the middle of building.

    python examples/parser.py --train FILE.conllu [--dev FILE.conllu]
    python examples/parser.py                sentences of a small grammar

Arc-standard transitions (Nivre, 2004) are scored from the states of a bidirectional
LSTM at the top of the stack and of the buffer (Kiperwasser and Goldberg, 2016). In
parsing, what comes next depends on scores: they are read at every step, for all
sentences of a minibatch together, which go on from there. In training, the scores along
the known trees are read once, and the loss is built where a wrong transition comes
within a margin of the right one.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from treadle.data import Vocabulary

Array = np.ndarray[Any, Any]
SHIFT = 0  # then 2k + 1: an arc to the left with label k, 2k + 2: to the right


@dataclass(frozen=True)
class Parsed:
    """Words, and of each its head (from 1 on, 0 is the root) and label."""

    words: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass
class Configuration:
    """A sentence on its way: words are numbered from 1 on, the root is 0."""

    length: int
    stack: list[int] = field(default_factory=lambda: [0])
    next: int = 1
    heads: dict[int, int] = field(default_factory=dict)
    labels: dict[int, int] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.next > self.length and len(self.stack) == 1

    def allowed(self, transitions: int) -> Array:
        """Which transitions there are: the root has no head, and is attached last."""
        found = np.zeros(transitions, bool)
        found[SHIFT] = self.next <= self.length
        found[1::2] = len(self.stack) > 2
        found[2::2] = len(self.stack) > 2 or (
            len(self.stack) == 2 and self.next > self.length
        )
        return found

    def take(self, transition: int) -> None:
        """Go on by a transition."""
        if transition == SHIFT:
            self.stack.append(self.next)
            self.next += 1
            return
        left = transition % 2 == 1
        child = self.stack.pop(-2 if left else -1)
        self.heads[child] = self.stack[-1]
        self.labels[child] = (transition - 1) // 2

    def right_one(self, heads: Sequence[int], labels: Sequence[int]) -> int:
        """The transition towards a known tree."""
        if len(self.stack) > 1:
            below, top = self.stack[-2:]
            if below and heads[below - 1] == top:
                return 2 * labels[below - 1] + 1
            found = sum(head == top for head in self.heads.values())
            if heads[top - 1] == below and found == heads.count(top):
                return 2 * labels[top - 1] + 2
        return SHIFT


def is_projective(heads: Sequence[int]) -> bool:
    """Whether no two arcs cross."""
    arcs = [(min(h, k), max(h, k)) for k, h in enumerate(heads, 1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def read(path: Path) -> list[Parsed]:
    """The sentences of a CoNLL-U file that arc-standard transitions reach."""
    found = []
    for s in td.data.read_conllu(path):
        heads = [int(head) for head in s.column("head")]
        if is_projective(heads) and heads.count(0) == 1:
            own = Parsed(tuple(s.words), tuple(heads), tuple(s.column("deprel")))
            found.append(own)
    return found


def made(count: int, seed: int = 0) -> list[Parsed]:
    """Sentences of subject, verb and object; a phrase with "of" hangs on its noun, one
    with "at" on the verb.
    """
    draw = np.random.default_rng(seed)
    nouns = "cat dog bird tree house friend road boat".split()

    def noun(start: int, head: int, label: str) -> list[tuple[str, int, str]]:
        det = (str(draw.choice(["the", "a"])), start + 1, "det")
        return [det, (str(draw.choice(nouns)), head, label)]

    found = []
    for _ in range(count):
        verb = 3
        rows = noun(1, verb, "nsubj")
        rows += [(str(draw.choice(["sees", "likes", "finds"])), 0, "root")]
        rows += noun(4, verb, "obj")
        for _ in range(int(draw.integers(3))):
            k = len(rows) + 1
            of = bool(draw.integers(2))
            head = max(i for i, row in enumerate(rows, 1) if row[0] in nouns)
            rows += [("of" if of else "at", k + 2, "case")]
            rows += noun(k + 1, head if of else verb, "nmod" if of else "obl")
        words, heads, labels = zip(*rows, strict=True)
        found.append(Parsed(words, heads, labels))
    return found


class Parser(td.nn.Module):
    """Scores of transitions, by the words at the top of the stack and the buffer."""

    def __init__(
        self, words: Vocabulary, labels: Vocabulary, width: int, hidden: int
    ) -> None:
        self.words, self.labels = words, labels
        self.transitions = 2 * len(labels) + 1
        self.embed = td.nn.Embedding(len(words), width, sparse=True)
        self.sides = td.nn.LSTM(width, hidden, bidirectional=True)
        self.inner = td.nn.Linear(8 * hidden, hidden)
        self.outer = td.nn.Linear(hidden, self.transitions)
        self.nothing = td.zeros(2 * hidden)

    @td.function
    def score(self, third: Any, second: Any, first: Any, buffer: Any) -> Any:
        """Scores of the transitions."""
        both = td.concat([third, second, first, buffer])
        return self.outer(td.tanh(self.inner(both)))

    def states(self, words: Sequence[str]) -> list[Any]:
        """What is known of each word from both sides; of the root first."""
        ids = [self.words.id_of("begin"), *self.words.encode(words)]
        return self.sides.transduce([self.embed(k) for k in ids])

    def scores(self, at: Configuration, states: Sequence[Any]) -> Any:
        """The scores of the transitions of a configuration."""
        tops = [states[k] for k in at.stack[-3:]]
        buffer = states[at.next] if at.next <= at.length else self.nothing
        return self.score(*[self.nothing] * (3 - len(tops)), *tops, buffer)

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Configuration]:
        """The best transitions one after the other, of all sentences at once."""
        found = [Configuration(len(words)) for words in sentences]
        with td.no_grad():
            states = [self.states(words) for words in sentences]
            td.evaluate(states)
            while active := [k for k, at in enumerate(found) if not at.done]:
                scores = td.evaluate([self.scores(found[k], states[k]) for k in active])
                for k, y in zip(active, scores, strict=True):
                    allowed = found[k].allowed(self.transitions)
                    found[k].take(int(np.where(allowed, y, -np.inf).argmax()))
        return found

    def loss(self, sentences: Sequence[Parsed]) -> Any:
        """What right transitions lack to be better by 1 than all others on the way to
        the known trees; None if they lack nothing.
        """
        scores, rights, allowed = [], [], []
        for s in sentences:
            at, states = Configuration(len(s.words)), self.states(s.words)
            labels = self.labels.encode(s.labels)
            while not at.done:
                scores.append(self.scores(at, states))
                rights.append(at.right_one(s.heads, labels))
                allowed.append(at.allowed(self.transitions))
                at.take(rights[-1])
        found, every = np.array(td.evaluate(scores)), np.arange(len(scores))
        others = np.array(allowed)
        others[every, rights] = False
        own = found[every, rights]
        found = np.where(others, found, -np.inf)
        wrongs = found.argmax(1)
        (close,) = np.nonzero(found[every, wrongs] > own - 1)
        if not len(close):
            return None
        rows = td.stack([scores[k] for k in close])
        right = td.pick(rows, np.array(rights)[close])
        return (1 - right + td.pick(rows, wrongs[close])).sum()


def attachment(model: Parser, sentences: Sequence[Parsed], size: int = 64) -> Any:
    """The shares of words with their head, and with their head and label."""
    heads = labels = total = 0
    for k in range(0, len(sentences), size):
        some = sentences[k : k + size]
        for s, at in zip(some, model.parse([s.words for s in some]), strict=True):
            known = model.labels.encode(s.labels)
            for i, (head, label) in enumerate(zip(s.heads, known, strict=True), 1):
                heads += at.heads[i] == head
                labels += at.heads[i] == head and at.labels[i] == label
            total += len(s.words)
    return heads / total, labels / total


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=Path, help="a CoNLL-U file")
    parser.add_argument("--dev", type=Path, help="another; else a tenth of the first")
    parser.add_argument("--count", type=int, default=400, help="of made sentences")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    td.set_options(seed=args.seed)

    train = td.data.ListDataset(read(args.train) if args.train else made(args.count))
    if args.dev:
        dev = td.data.ListDataset(read(args.dev))
    else:
        train, dev = train.split(0.1, seed=args.seed)
    counts = Counter(word for s in train for word in s.words)
    words = Vocabulary.from_counts(counts, minimum=2, unknown="<unk>", begin="<root>")
    counts = Counter(label for s in train for label in s.labels)
    labels = Vocabulary.from_counts(counts, unknown="<unk>")
    model = Parser(words, labels, args.width, args.hidden)
    optimizer = td.optim.Adam(lr=args.lr)
    loader = td.data.Loader(train, batch_size=args.batch, seed=args.seed)
    losses, scores = [], []
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for batch in loader:
            loss = model.loss(batch)
            if loss is not None:
                total += float(optimizer.step(loss))
        losses.append(total / len(train))
        scores.append(attachment(model, list(dev)))
        heads, both = scores[-1]
        print(f"epoch {epoch}: loss {losses[-1]:.3f}, heads {heads:.4f}, with labels "
              f"{both:.4f}")  # fmt: skip
    return {"losses": losses, "scores": scores}


if __name__ == "__main__":
    main()
