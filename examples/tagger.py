"""The tag of every word: a bidirectional LSTM, sentence by sentence.

    python examples/tagger.py --train FILE [--dev FILE]
    python examples/tagger.py                sentences of a small grammar

Files end in .conllu, or have a sentence of word|tag word|tag ... a line. Sentences of
unequal length are built one by one and run together, as rows. Words seen once stand for
those never seen. Huang, Xu and Yu, "Bidirectional LSTM-CRF models for sequence
tagging", 2015, without the CRF.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from treadle.data import Tagged, Vocabulary

F = td.nn.functional


def read(path: Path) -> list[Tagged]:
    """The sentences of a file, by its ending."""
    if path.suffix == ".conllu":
        found = td.data.read_conllu(path)
        return [Tagged(tuple(s.words), tuple(s.column("upos"))) for s in found]
    return list(td.data.read_tagged(path))


def made(count: int, seed: int = 0) -> list[Tagged]:
    """Sentences in which only what stands before and after tells a verb from a noun."""
    draw = np.random.default_rng(seed)
    either = "walk run play look swim dance talk call rest drink".split()
    words = {
        "DET": ["the", "a", "every"],
        "ADJ": ["long", "short", "old"],
        "PRON": ["they", "we"],
        "VERB": either,
        "NOUN": either,
        "AUX": ["can", "will"],
    }
    forms = ["DET NOUN", "DET ADJ NOUN", "PRON"]
    found = []
    for _ in range(count):
        subject, object_ = (forms[draw.integers(3)] for _ in range(2))
        aux = "AUX " if draw.integers(2) else ""
        tags = f"{subject} {aux}VERB {object_}".split()
        chosen = [str(draw.choice(words[tag])) for tag in tags]
        found.append(Tagged(tuple(chosen), tuple(tags)))
    return found


class Tagger(td.nn.Module):
    """An LSTM in each direction, and a layer that sees both."""

    def __init__(
        self, words: Vocabulary, tags: Vocabulary, width: int, hidden: int
    ) -> None:
        self.words, self.tags = words, tags
        self.embed = td.nn.Embedding(len(words), width, sparse=True)
        self.sides = td.nn.LSTM(width, hidden, bidirectional=True)
        self.inner = td.nn.Linear(2 * hidden, hidden)
        self.outer = td.nn.Linear(hidden, len(tags))

    @td.function
    def score(self, both: Any) -> Any:
        """A score for each tag of a word, from the states on both sides."""
        return self.outer(td.tanh(self.inner(both)))

    def scores(self, words: Sequence[str]) -> list[Any]:
        """The scores of the words of a sentence."""
        vectors = [self.embed(k) for k in self.words.encode(words)]
        return [self.score(both) for both in self.sides.transduce(vectors)]

    def loss(self, sentences: Sequence[Tagged]) -> Any:
        """The mean cross entropy of all words."""
        scores = [y for s in sentences for y in self.scores(s.words)]
        tags = [k for s in sentences for k in self.tags.encode(s.tags)]
        return F.cross_entropy(td.stack(scores), tags)

    def accuracy(self, sentences: Sequence[Tagged], size: int = 64) -> float:
        """The share of words that get their tag."""
        right = total = 0
        with td.no_grad():
            for k in range(0, len(sentences), size):
                some = sentences[k : k + size]
                found = td.stack([y for s in some for y in self.scores(s.words)])
                tags = self.tags.decode(found.argmax(-1).tolist())
                known = [tag for s in some for tag in s.tags]
                right += sum(a == b for a, b in zip(tags, known, strict=True))
                total += len(known)
        return right / total


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=Path, help="a file of sentences")
    parser.add_argument("--dev", type=Path, help="another; else a tenth of the first")
    parser.add_argument("--count", type=int, default=1000, help="of made sentences")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    td.set_options(seed=args.seed)

    train = td.data.ListDataset(read(args.train) if args.train else made(args.count))
    if args.dev:
        dev = td.data.ListDataset(read(args.dev))
    else:
        train, dev = train.split(0.1, seed=args.seed)
    counts = Counter(word for s in train for word in s.words)
    words = Vocabulary.from_counts(counts, minimum=2, unknown="<unk>")
    counts = Counter(tag for s in train for tag in s.tags)
    tags = Vocabulary.from_counts(counts, unknown="<unk>")
    model = Tagger(words, tags, args.width, args.hidden)
    optimizer = td.optim.Adam(lr=args.lr)
    loader = td.data.Loader(train, batch_size=args.batch, seed=args.seed)
    losses, accuracies = [], []
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        own = [optimizer.step(model.loss(batch)) for batch in loader]
        rate = sum(counts.values()) / (time.perf_counter() - start)
        losses.append(float(np.mean(own, dtype=float)))
        accuracies.append(model.accuracy(list(dev)))
        print(
            f"epoch {epoch}: loss {losses[-1]:.3f}, dev accuracy {accuracies[-1]:.4f}, "
            f"{rate:.0f} words/s"
        )
    return {"losses": losses, "accuracies": accuracies}


if __name__ == "__main__":
    main()
