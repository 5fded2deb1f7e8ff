"""`python -m tests.typed`: mypy finds a misspelled name or keyword in a user's file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A file of a user's with a mistake in each of its lines, and what mypy says of it.
MISTAKES = {
    "td.relv(1.0)": "attr-defined",
    "td.nn.Liner(3, 2)": "attr-defined",
    "td.optim.Adan()": "attr-defined",
    "td.data.Loade(x)": "attr-defined",
    "td.ones((2, 2)).meen()": "attr-defined",
    "td.nn.functional.relv(1.0)": "attr-defined",
    "td.softmax(1.0, axes=0)": "call-arg",
    "td.nn.Linear(3, 2, bais=False)": "call-arg",
    "td.ones((2, 2)).sum(axes=0)": "call-arg",
    "td.optim.Adam([], learning_rate=0.1)": "call-arg",
    "td.optim.Momentum([], decay=0.1)": "call-arg",
    "td.nn.LSTM(3, 4, batchfirst=True)": "call-arg",
    "td.nn.RNN(3, 4, bidir=True)": "call-arg",
    "td.Parameter(1.0, nam='x')": "call-arg",
    "td.set_options(thread=2)": "call-arg",
    "td.options(thread=2)": "call-arg",
    "td.linalg.svdd(x)": "attr-defined",
}


def main() -> int:
    """The number of mistakes that are not found, and of errors where there is none."""
    code = ["import treadle as td", "x = td.data.ArrayDataset()", *MISTAKES]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text("\n".join(code) + "\n")
        options = ["--no-error-summary", "--follow-imports=silent", "--no-incremental"]
        config = ["--config-file=", "--python-version=3.11", *options]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *config, str(path)],
            cwd=folder, capture_output=True, text=True, env={"MYPYPATH": str(ROOT)},
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    wrong = 0
    for number, (line, kind) in enumerate(MISTAKES.items(), 3):
        if not any(f":{number}: " in x and f"[{kind}]" in x for x in lines):
            wrong += 1
            print(f"not found: {line}")
    others = [x for x in lines if x.split(":")[1] in ("1", "2")]
    print(
        *others, f"{len(MISTAKES) - wrong} of {len(MISTAKES)} mistakes found", sep="\n"
    )
    return wrong + len(others)


if __name__ == "__main__":
    raise SystemExit(main())
