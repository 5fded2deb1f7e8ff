"""`python -m tests.core.sanitized address|thread [TESTS]`: tests beside sanitizers.

A copy of the tree gets a core that is built with AddressSanitizer and UBSan, or with
ThreadSanitizer, and its tests are run there. Whatever these report fails. Where the
compiler has them not, or they do not start, that is said and nothing is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("treadle", "tests", "examples", "setup.py", "conftest.py", "pyproject.toml")
PARTS += ("README.md",)  # setup.py reads it
KINDS = {
    "address": ("address,undefined", ("libasan.so", "libubsan.so")),
    "thread": ("thread", ("libtsan.so",)),
}
TESTS = {
    "address": [
        "tests/core",
        *("tests/graph/test_calls.py", "tests/graph/test_look.py"),
        *("tests/graph/test_noted.py", "tests/runtime/test_at_once.py"),
        *("tests/runtime/test_spellings.py", "tests/batch/test_cells.py"),
        "tests/batch/test_planned.py",
        *("tests/engines/test_bodies.py", "tests/engines/test_slices.py"),
    ],
    "thread": [
        *("tests/core", "tests/graph/test_calls.py", "tests/graph/test_noted.py"),
        *("tests/runtime/test_at_once.py", "tests/runtime/test_ownership.py"),
        *("tests/engines/test_bodies.py", "tests/engines/test_slices.py"),
    ],
}
# A thread's own memory goes back to the C library, which tells nobody.
QUIET = "race:*dl_deallocate_tls*\nrace:*__call_tls_dtors*\n"


def libraries(kind: str) -> list[str]:
    """The files of the sanitizers of a kind; none where the compiler has them not."""
    found = []
    for name in KINDS[kind][1]:
        asked = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
        try:
            place = subprocess.check_output(asked, text=True).strip()
        except (OSError, subprocess.CalledProcessError):
            return []
        if not os.path.isabs(place):
            return []
        found.append(place)
    return found


def build(place: Path, kind: str) -> None:
    """Copy the tree, and build its core there."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            skipped = shutil.ignore_patterns("native*.so", "__pycache__")
            shutil.copytree(ROOT / part, place / part, ignore=skipped)
        else:
            shutil.copy(ROOT / part, place / part)
    flags = f"-fsanitize={KINDS[kind][0]} -fno-omit-frame-pointer -g"
    own = dict.fromkeys(("CFLAGS", "CXXFLAGS", "LDFLAGS"), flags)
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=place, env={**os.environ, **own}, capture_output=True, text=True
    )
    if not list((place / "treadle" / "core").glob("native*.so")):
        sys.exit(f"the core was not built:\n{done.stdout}{done.stderr}")


def of_the_core(log: Path) -> str:
    """What a log says of the core: generated code hands on what no sanitizer sees."""
    parts = log.read_text().split("=" * 18 + "\n")
    return "\n".join(x for x in parts if "/native." in x or "(native." in x)


def main(kind: str, *tests: str) -> None:
    """Run tests with a kind of sanitizer."""
    found = libraries(kind)
    if not found:
        print(f"the compiler has no {kind} sanitizer: nothing was run")
        return
    with tempfile.TemporaryDirectory() as folder:
        place, logs = Path(folder) / "tree", Path(folder) / "logs"
        place.mkdir()
        logs.mkdir()
        quiet = Path(folder) / "quiet"
        quiet.write_text(QUIET)
        told = f"log_path={logs}/found:exitcode=0"
        own = {
            "LD_PRELOAD": " ".join(found),
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": f"detect_leaks=0:{told}",
            "UBSAN_OPTIONS": f"print_stacktrace=1:{told}",
            "TSAN_OPTIONS": f"suppressions={quiet}:{told}",
        }
        around = {**os.environ, **own}
        if subprocess.run([sys.executable, "-c", ""], env=around).returncode:
            print(f"no process starts with the {kind} sanitizer: nothing was run")
            return
        build(place, kind)
        command = [sys.executable, "-m", "pytest", "-q", *(tests or TESTS[kind])]
        done = subprocess.run(command, cwd=place, env=around)
        reports = "".join(map(of_the_core, sorted(logs.iterdir())))
    print(reports or f"{kind} sanitizer: nothing to report")
    sys.exit(1 if reports else done.returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
