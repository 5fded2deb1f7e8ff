"""Published ONNX files beside ONNX Runtime: `python -m tests.io.onnx_published PATHS`.

A path is a wheel (`pip download --no-deps NAME`), a folder or a file. Printed are, for
each file, the greatest difference over the greatest result (at least 1), and the median
processor time of a module's call over that of ONNX Runtime, taken in turn. Inputs are
drawn; of open dimensions the first extents are taken that ONNX Runtime accepts.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td

__all__ = ["Row", "apart", "feed_of", "files", "row_of", "session_of"]

Feed = dict[str, np.ndarray[Any, Any]]

NARROW = 1e-4  # the greatest difference that is let pass
RATE = 16_000  # of signals: the one whole number without dimensions that files ask for
PICTURES = (320, 48, 224)  # extents tried for height and width
SIGNALS = (576, 1, 320)  # and for the last of two dimensions


@dataclass(frozen=True)
class Row:
    """What is printed of a file."""

    name: str
    difference: float = 0.0
    ours: float = 0.0
    theirs: float = 0.0
    reason: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name:45} {self.reason[:120]}"
        times = f"{self.ours * 1e3:8.2f} {self.theirs * 1e3:8.2f} {self.ratio:6.2f}"
        return f"{self.name:45} {self.difference:9.1e} {times}"


def files(path: Path) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the ONNX files of a wheel or folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(".onnx"):
                    yield (
                        f"{path.name.split('-')[0]}/{Path(name).name}",
                        wheel.read(name),
                    )
    else:
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            yield file.name, file.read_bytes()


def session_of(model: bytes, threads: int, fused: bool = True) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    if not fused:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _extents(rank: int, axis: int) -> tuple[int, ...]:
    """The extents tried for an open dimension."""
    if rank == 4 and axis > 1:
        return PICTURES
    return SIGNALS if (rank, axis) == (2, 1) else (1,)


def _drawn(type_: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    name = type_.removeprefix("tensor(").removesuffix(")")
    if name in ("float", "double", "float16"):
        dtype = {"float": "float32", "double": "float64"}.get(name, name)
        return rng.standard_normal(shape).astype(dtype)
    if not shape:
        return np.asarray(RATE, name)
    return rng.integers(0, 2 if name == "bool" else 256, shape).astype(name)


def feed_of(session: Any) -> Feed:
    """Inputs that ONNX Runtime accepts; raises its last error where there are none."""
    ports = session.get_inputs()
    choices = [
        (n,) if isinstance(n, int) and n > 0 else _extents(len(port.shape), axis)
        for port in ports
        for axis, n in enumerate(port.shape)
    ]
    error: Exception | None = None
    for extents in itertools.product(*choices):
        rest, feed = iter(extents), {}
        for seed, port in enumerate(ports):
            shape = tuple(next(rest) for _ in port.shape)
            feed[port.name] = _drawn(port.type, shape, seed)
        try:
            session.run(None, feed)
        except Exception as refusal:  # of a kind of its own for each reason
            error = refusal
        else:
            return feed
    raise error or ValueError("no inputs")


def _difference(values: Any, wanted: Any) -> float:
    pairs = zip(values, wanted, strict=True)
    return max(apart(np.asarray(y), np.asarray(want)) for y, want in pairs)


def apart(y: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    """The greatest difference over the greatest finite value, which is at least 1."""
    if y.shape != want.shape or y.dtype != want.dtype:
        return float("inf")
    y, want = y.astype(float), want.astype(float)
    finite = np.isfinite(want)
    if not np.array_equal(y[~finite], want[~finite], equal_nan=True):
        return float("inf")
    y, want = y[finite], want[finite]
    if not np.isfinite(y).all():
        return float("inf")
    return float(np.max(abs(y - want), initial=0) / np.max(abs(want), initial=1))


def _medians(runs: int, *calls: Callable[[], Any]) -> list[float]:
    """The median processor time of each call, in turn."""
    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(runs + 3):
        for call, times in zip(calls, samples, strict=True):
            start = time.process_time()
            call()
            if turn >= 3:
                times.append(time.process_time() - start)
    return [statistics.median(times) for times in samples]


def row_of(name: str, model: bytes, runs: int, threads: int) -> Row:
    """One file, loaded, compared and measured."""
    session = session_of(model, threads)
    feed = feed_of(session)
    inputs = list(feed.values())
    try:
        net = td.from_onnx(model)
        values = _arrays(net(*inputs))
    except td.TreadleError as error:
        return Row(name, reason=f"refused: {error.message}")
    difference = _difference(values, session.run(None, feed))
    if difference > NARROW:  # fused, a value may go to another byte
        unfused = session_of(model, threads, fused=False)
        difference = min(difference, _difference(values, unfused.run(None, feed)))

    calls = lambda: _arrays(net(*inputs)), lambda: session.run(None, feed)
    return Row(name, difference, *_medians(runs, *calls))


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(y) for y in (result if isinstance(result, tuple) else (result,))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the names of the files")
    args = parser.parse_args()
    rows = []
    print(f"{'file':45} {'apart':>9} {'ms':>8} {'theirs':>8} {'ratio':>6}")
    with td.options(threads=args.threads):
        for path in args.paths:
            for name, model in files(path):
                if args.only in name:
                    rows.append(row_of(name, model, args.runs, args.threads))
                    print(rows[-1], flush=True)
    read = [row for row in rows if not row.reason]
    ratios = [row.ratio for row in read]
    close = sum(row.difference <= NARROW for row in read)
    print(f"{len(rows)} files, {len(read)} read, {close} within {NARROW}")
    if ratios:
        median = statistics.median(ratios)
        print(f"processor time: median {median:.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
