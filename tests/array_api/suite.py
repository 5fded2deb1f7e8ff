"""Run array-api-tests, the suite of the array API standard, from a checkout of it.

    python -m tests.array_api.suite CHECKOUT [--examples 10] [-- pytest arguments]

The checkout is of data-apis/array-api-tests, with its submodule. Printed are the cases
that fail here and pass for array-api-strict, where that is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

_CASE = re.compile(r"^(PASSED|FAILED) (array_api_tests/.*?)(?: - .*)?$")


def outcomes(checkout: Path, module: str, examples: int, more: list[str]) -> set[str]:
    """The cases that fail for a module."""
    paths = [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
    around = {**os.environ, "ARRAY_API_TESTS_MODULE": module}
    around["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-m", "pytest", "-q", "-rpf", "-p", "no:cacheprovider"]
    command += ["--disable-deadline", f"--max-examples={examples}", *more]
    if not any(word.startswith("array_api_tests") for word in more):
        command.append("array_api_tests")
    done = subprocess.run(
        command, cwd=checkout, env=around, capture_output=True, text=True, check=False
    )
    found = [m.groups() for m in map(_CASE.match, done.stdout.splitlines()) if m]
    if not found:
        sys.exit(done.stdout + done.stderr)
    failed = {case for state, case in found if state == "FAILED"}
    print(f"{module}: {len(found) - len(failed)} pass, {len(failed)} fail")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description="Run array-api-tests on treadle.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--examples", type=int, default=10)
    given, more = parser.parse_known_args()
    rest = [word for word in more if word != "--"]
    ours = outcomes(given.checkout, "treadle", given.examples, rest)
    if find_spec("array_api_strict") is None:
        print("array-api-strict is not installed: all that fail here")
    else:
        strict = "array_api_strict"
        ours -= outcomes(given.checkout, strict, given.examples, rest)
        print("fail here, and pass for array-api-strict:")
    print("\n".join(sorted(ours)) or "none")


if __name__ == "__main__":
    main()
