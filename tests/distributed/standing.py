"""A rank that runs programs one after another: `python -m tests.distributed.standing
FOLDER` reads each as a line of `calls.RANK`, a pipe in the folder, until it ends."""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from treadle.base.options import options
from treadle.distributed import layout, rank


def run_program(file: Path, arguments: Sequence[str]) -> None:
    """Run a program of a rank; options and the size of buckets are as before then."""
    argv = mock.patch.object(sys, "argv", [str(file), *arguments])
    bucket = mock.patch.object(layout, "BUCKET", layout.BUCKET)
    try:
        with argv, bucket, options(threads=1):
            runpy.run_path(str(file))
    except SystemExit as error:
        raise AssertionError(f"the program ends: {error}") from error


def main(folder: str) -> None:
    """Run programs; an error in one ends the rank, and so all of them."""
    number = rank()
    # The writer is there already: where it is not any more, this is at the end.
    pipe = os.open(Path(folder) / f"calls.{number}", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(pipe, True)
    with os.fdopen(pipe) as calls:
        for line in calls:
            file, *arguments = json.loads(line)
            run_program(Path(file), arguments)
            gc.collect()
            Path(file).with_name(f"{number}.end").touch()


if __name__ == "__main__":
    main(sys.argv[1])
