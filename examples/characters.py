"""A language model of characters that goes on writing.

    python examples/characters.py --text FILE
    python examples/characters.py            sums in words, made on the spot

The text is cut into as many streams as there are rows in a batch, and read in pieces;
the state goes on from piece to piece, the gradient does not. All pieces have one form,
so what Python builds anew each time is compiled once. Mikolov et al., "Recurrent neural
network based language model", 2010, with an LSTM.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from treadle.data import Vocabulary

F = td.nn.functional
Array = np.ndarray[Any, Any]


def made(count: int, seed: int = 0) -> str:
    """Sums of small numbers in words, one a line."""
    draw = np.random.default_rng(seed)
    small = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen "
        "fourteen fifteen sixteen seventeen eighteen"
    ).split()
    pairs = draw.integers(10, size=(count, 2)).tolist()
    return "".join(f"{small[a]} and {small[b]} is {small[a + b]}.\n" for a, b in pairs)


class Writer(td.nn.Module):
    """The state after a character, and the scores of the next one."""

    def __init__(self, characters: Vocabulary, width: int, hidden: int) -> None:
        self.characters = characters
        self.hidden = hidden
        self.embed = td.nn.Embedding(len(characters), width)
        self.cell = td.nn.LSTMCell(width, hidden)
        self.out = td.nn.Linear(hidden, len(characters))

    def start(self, rows: int) -> Any:
        """The state before any text."""
        return td.zeros((rows, self.hidden)), td.zeros((rows, self.hidden))

    @td.function
    def step(self, ids: Any, state: Any) -> Any:
        """The state after one character of each row."""
        return self.cell(self.embed(ids), state)

    def loss(self, ids: Array, after: Array, state: Any) -> Any:
        """The mean cross entropy of a piece [time, rows], and the state after it."""
        outputs = []
        for column in ids:
            state = self.step(column, state)
            outputs.append(state[0])
        return F.cross_entropy(self.out(td.concat(outputs)), after.reshape(-1)), state

    def write(self, beginning: str, length: int, temperature: float) -> str:
        """How a text may go on."""
        state = self.start(1)
        first, *rest = reversed(self.characters.encode(beginning))
        for k in reversed(rest):
            state = self.step(np.array([k]), state)

        def step(state: Any, tokens: Any) -> Any:
            state = self.step(tokens, state)
            return td.log_softmax(self.out(state[0])), state

        with td.no_grad():
            ((found,),) = td.nn.sample(
                step,
                state,
                np.array([first]),
                end=None,
                max_length=length,
                temperature=temperature,
            )
        return beginning + "".join(self.characters.decode(found.tokens))


def streams(ids: Array, rows: int) -> Array:
    """A text as columns [time, rows] to be read at the same time."""
    length = len(ids) // rows
    return ids[: rows * length].reshape(rows, length).T.copy()


def perplexity(model: Writer, ids: Array, piece: int) -> float:
    """Among how many characters the model wavers."""
    model.eval()
    state, total, count = model.start(ids.shape[1]), 0.0, 0
    with td.no_grad():
        for k in range(0, len(ids) - 1, piece):
            after = ids[k + 1 : k + piece + 1]
            loss, state = model.loss(ids[k : k + len(after)], after, state)
            own, *state = td.evaluate(loss, *state)
            total, count = total + float(own) * after.size, count + after.size
    model.train()
    return float(np.exp(total / count))


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--text", type=Path, help="a file of plain text")
    parser.add_argument("--count", type=int, default=4000, help="of made lines")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--piece", type=int, default=32, help="characters of a step")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    td.set_options(seed=args.seed)

    text = td.data.read_text(args.text) if args.text else made(args.count)
    characters = Vocabulary.from_counts(Counter(text), unknown="<unk>")
    ids = np.array(characters.encode(text))
    cut = len(ids) * 9 // 10
    train, dev = streams(ids[:cut], args.rows), streams(ids[cut:], args.rows)
    model = Writer(characters, args.width, args.hidden)
    optimizer = td.optim.Adam(lr=args.lr, clip_norm=5.0)
    perplexities = []
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        state = model.start(args.rows)
        for k in range(0, len(train) - args.piece, args.piece):
            piece, after = train[k : k + args.piece], train[k + 1 : k + args.piece + 1]
            loss, state = model.loss(piece, after, state)
            optimizer.step(loss)
            state = tuple(td.asarray(x.numpy()) for x in state)
        rate = train.size / (time.perf_counter() - start)
        perplexities.append(perplexity(model, dev, args.piece))
        print(
            f"epoch {epoch}: dev perplexity {perplexities[-1]:.3f}, "
            f"{rate:.0f} characters/s",
            flush=True,
        )
    sample = model.write(text[:20], 60, temperature=0.5)
    print(sample)
    return {"perplexities": perplexities, "sample": sample}


if __name__ == "__main__":
    main()
