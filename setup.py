"""Builds the core (treadle/core), where there is a compiler for C++.

Without one the install goes on, and the same algorithms run in plain Python.
"""

import re
import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup

UNIX = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-pthread",
]

# On a page of an index there is nothing that a link within the sources leads to.
README = re.sub(
    r"\[([^\]]+)\]\((?!\w+:)[^)]*\)",
    r"\1",
    (Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
)

setup(
    long_description=README,
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "treadle.core.native",
            sorted(map(str, Path("treadle/core").glob("*.cpp"))),
            depends=sorted(map(str, Path("treadle/core").glob("*.hpp"))),
            include_dirs=[numpy.get_include()],
            language="c++",
            extra_compile_args=["/std:c++17"] if sys.platform == "win32" else UNIX,
            extra_link_args=[] if sys.platform == "win32" else ["-pthread"],
            optional=True,
        )
    ],
)
