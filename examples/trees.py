"""The sentiment of every phrase: a binary tree-LSTM, built tree by tree.

    python examples/trees.py --data DIR     with train.txt, dev.txt, perhaps test.txt
    python examples/trees.py                ListOps trees, made on the spot

A tree is read from its leaves up, by plain recursion over two cells; the state of every
phrase that has a label is classified. Tai, Socher and Manning, "Improved semantic
representations from tree-structured long short-term memory networks", 2015.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from treadle.data import Tree

F = td.nn.functional


def binary(tree: Tree) -> Tree:
    """A tree of two children a node, joined from the left under empty labels."""
    if tree.word is not None:
        return tree
    first, *others = map(binary, tree.children)
    for other in others[:-1]:
        first = Tree("", (first, other))
    return Tree(tree.label, (first, *others[-1:])) if others else first


def load(data: Path | None, count: int) -> dict[str, list[Tree]]:
    """Trees to train on, to choose by, and to test with if there are any."""
    if data is None:
        trees = [binary(t) for t in td.data.generate_listops(count + count // 2)]
        return {"train": trees[:count], "dev": trees[count:]}
    files = {p: data / f"{p}.txt" for p in ("train", "dev", "test")}
    asked = {p: f for p, f in files.items() if p != "test" or f.exists()}
    found = {p: td.data.read_trees(f) for p, f in asked.items()}
    every = {p: [binary(t) for t in trees] for p, trees in found.items()}
    return {**every, "train": every["train"][: count or None]}


class TreeLSTM(td.nn.Module):
    """States (h, c) of words and of pairs of phrases, and the classes of states."""

    def __init__(
        self,
        words: td.data.Vocabulary,
        labels: list[str],
        width: int,
        hidden: int,
        dropout: float,
    ) -> None:
        self.words = words
        self.classes = {label: k for k, label in enumerate(labels)}
        self.embed = td.nn.Embedding(
            len(words),
            width,
            weight_init=td.nn.init.uniform(low=-0.1, high=0.1),
            sparse=True,
        )
        self.leaf = td.nn.Linear(width, 3 * hidden)
        self.inner = td.nn.Linear(2 * hidden, 5 * hidden)
        self.head = td.nn.Linear(hidden, len(labels))
        self.dropout = td.nn.Dropout(dropout)

    @td.function
    def word(self, x: Any) -> Any:
        """The state of a word from its vector."""
        i, o, u = td.split(self.leaf(x), 3)
        c = td.sigmoid(i) * td.tanh(u)
        return td.sigmoid(o) * td.tanh(c), c

    @td.function
    def pair(self, left: Any, right: Any) -> Any:
        """The state of a phrase from those of its halves."""
        (h1, c1), (h2, c2) = left, right
        i, f1, f2, o, u = td.split(self.inner(td.concat([h1, h2])), 5)
        c = td.sigmoid(i) * td.tanh(u) + td.sigmoid(f1) * c1 + td.sigmoid(f2) * c2
        return td.sigmoid(o) * td.tanh(c), c

    def state(self, tree: Tree, states: list[Any], labels: list[int]) -> Any:
        """The state of a tree; those of its phrases that have a label, with these."""
        if tree.word is not None:
            own = self.word(self.dropout(self.embed(self.words[tree.word])))
        else:
            left, right = tree.children
            own = self.pair(
                self.state(left, states, labels), self.state(right, states, labels)
            )
        label = self.classes.get(tree.label)
        if label is not None:
            states.append(own[0])
            labels.append(label)
        return own

    def loss(self, trees: list[Tree]) -> Any:
        """The cross entropy of all labeled phrases, summed for each tree."""
        states: list[Any] = []
        labels: list[int] = []
        for tree in trees:
            self.state(tree, states, labels)
        logits = self.head(self.dropout(td.stack(states)))
        return F.cross_entropy(logits, labels, reduction="sum") / len(trees)

    def predict(self, trees: list[Tree]) -> list[int]:
        """The classes of the roots."""
        roots = [self.state(tree, [], [])[0] for tree in trees]
        return self.head(td.stack(roots)).argmax(-1).tolist()


def accuracy(model: TreeLSTM, trees: list[Tree], size: int = 64) -> float:
    """The share of trees whose root gets its label."""
    model.eval()
    right = 0
    with td.no_grad():
        for k in range(0, len(trees), size):
            some = trees[k : k + size]
            found = model.predict(some)
            pairs = zip(found, some, strict=True)
            right += sum(y == model.classes.get(t.label, -1) for y, t in pairs)
    model.train()
    return right / len(trees)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder of bracketed trees")
    parser.add_argument("--count", type=int, default=0, help="trees of training")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=150)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--embed-lr", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--decay", type=float, default=1e-4, help="of weights, L2")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    td.set_options(seed=args.seed)

    parts = load(args.data, args.count or (0 if args.data else 1000))
    counts = Counter(w for tree in parts["train"] for w in tree.words())
    words = td.data.Vocabulary.from_counts(counts, unknown="<unk>")
    labels = sorted({tree.label for tree in parts["train"]})
    model = TreeLSTM(words, labels, args.width, args.hidden, args.dropout)
    table = [model.embed.weight]
    weights = [p for p in model.parameters() if p is not table[0]]
    optimizer = td.optim.Adagrad(
        [
            {"params": weights, "weight_decay": args.decay},
            {"params": table, "lr": args.embed_lr},
        ],
        lr=args.lr,
    )
    loader = td.data.Loader(
        td.data.ListDataset(parts["train"]), batch_size=args.batch, seed=args.seed
    )
    best: dict[str, Any] = {"epoch": 0, "dev": -1.0}
    losses, history = [], []
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        own = [optimizer.step(model.loss(batch)) for batch in loader]
        seconds = time.perf_counter() - start
        dev = accuracy(model, parts["dev"])
        losses.append(float(np.mean(own, dtype=float)))
        history.append(dev)
        rate = len(parts["train"]) / seconds
        print(
            f"epoch {epoch}: loss {losses[-1]:.3f}, dev accuracy {dev:.4f}, "
            f"{rate:.0f} trees/s",
            flush=True,
        )
        if dev > best["dev"]:
            best = {"epoch": epoch, "dev": dev, "state": model.state_dict()}
    model.load_state_dict(best.pop("state"))
    if "test" in parts:
        best["test"] = accuracy(model, parts["test"])
    print(", ".join(f"{k} {v:.4g}" for k, v in best.items()))
    return {**best, "losses": losses, "accuracies": history}


if __name__ == "__main__":
    main()
