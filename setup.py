"""Builds the Cython kernels; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

import os
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

# Set by `make fuzz`: the same kernels with AddressSanitizer and Cython's own bounds checks.
SANITIZE = os.environ.get("ORCSTREAM_SANITIZE") == "1"
CORES = os.cpu_count() or 1
# Else without what debuggers want, which takes a quarter of the time.
ARGS = ["-O1", "-g", "-fsanitize=address", "-fno-omit-frame-pointer"] if SANITIZE else ["-O3", "-g0"]

extensions = [
    Extension(
        path[:-4].replace(os.sep, "."),
        [path],
        extra_compile_args=ARGS,
        extra_link_args=["-fsanitize=address"] if SANITIZE else [],
    )
    for path in sorted(glob("orcstream/**/*.pyx", recursive=True))
]

# Guarded, since cythonize may start processes that import this file.
if __name__ == "__main__":
    setup(
        options={"build_ext": {"parallel": CORES}},
        ext_modules=cythonize(
            extensions,
            nthreads=CORES,
            compiler_directives={
                "language_level": "3",
                "boundscheck": SANITIZE,
                "wraparound": False,
                "cdivision": True,
                "initializedcheck": False,
                "freethreading_compatible": True,
            },
        ),
    )
