"""Builds the core (treadle/core), where there is a compiler for C++.

Without one the install goes on, and the same algorithms run in plain Python.
"""

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
]

setup(
    ext_modules=[
        Extension(
            "treadle.core.native",
            sorted(map(str, Path("treadle/core").glob("*.cpp"))),
            depends=sorted(map(str, Path("treadle/core").glob("*.hpp"))),
            include_dirs=[numpy.get_include()],
            language="c++",
            extra_compile_args=["/std:c++17"] if sys.platform == "win32" else UNIX,
            optional=True,
        )
    ]
)
