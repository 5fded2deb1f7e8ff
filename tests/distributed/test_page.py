"""The commands of docs/distributed.md, as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.distributed.jobs import LONGEST, NEEDS_MPI, ROOT

PAGE = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")


@NEEDS_MPI
def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    program = next(text for kind, text in blocks if kind == "python")
    line = next(text for kind, text in blocks if kind == "text").strip()
    commands = next(text for kind, text in blocks if kind == "sh").splitlines()
    (tmp_path / "train.py").write_text(program)
    for command, count in zip(commands, (1, 2, 4), strict=True):
        python = f"{sys.executable} -m treadle" if "treadle" in command else ""
        words = command.replace("treadle", python, 1) if python else command
        words = words.replace("python train", f"{sys.executable} train")
        done = subprocess.run(
            words.split(), capture_output=True, text=True, cwd=tmp_path,
            timeout=LONGEST, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ranks = [f"[{k}] {line}" for k in range(count)] if count > 1 else [line]
        assert sorted(done.stdout.splitlines()) == ranks
