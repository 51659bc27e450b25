"""Builds the Cython kernels; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Set by `make fuzz`: the same kernels with AddressSanitizer and Cython's own bounds checks.
SANITIZE = os.environ.get("ORCSTREAM_SANITIZE") == "1"
CORES = os.cpu_count() or 1
# Else without what debuggers want, which takes a quarter of the time. Without the alignment, the same
# loop takes up to a third longer, by what happens to stand before it.
FAST = ["-O3", "-g0", "-falign-functions=32", "-falign-loops=32"]
ARGS = ["-O1", "-g", "-fsanitize=address", "-fno-omit-frame-pointer"] if SANITIZE else FAST

PATHS = sorted(glob("orcstream/**/*.pyx", recursive=True))
# What Cython makes of memoryviews: generated once, not in each kernel, where it was half of what is compiled.
SHARED = "orcstream._cyutility"
SOURCES = {path[:-4].replace(os.sep, "."): path for path in PATHS} | {SHARED: "orcstream/_cyutility.c"}


class BuildKernels(build_ext):  # type: ignore[misc]  # setuptools has no types
    """As setuptools does; on Windows with clang, because Microsoft's compiler has no integers of 128 bits."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "msvc":
            self._choose_clang()
        super().build_extensions()

    def _choose_clang(self) -> None:
        clang_cl, clang = shutil.which("clang-cl"), shutil.which("clang")
        if clang_cl is None or clang is None:
            sys.exit("orcstream's kernels are compiled by LLVM's clang-cl on Windows: put LLVM's bin on PATH")
        self.compiler.initialize()
        self.compiler.cc = clang_cl
        # Divisions of 128 bits are functions of clang's own library.
        asked = subprocess.run([clang, "-print-resource-dir"], capture_output=True, text=True, check=True)
        library = Path(asked.stdout.strip(), "lib", "windows", "clang_rt.builtins-x86_64.lib")
        for extension in self.extensions:
            extension.extra_compile_args = ["/O2"]
            extension.extra_link_args = [str(library)]


extensions = [
    Extension(
        name,
        [path],
        extra_compile_args=ARGS,
        extra_link_args=["-fsanitize=address"] if SANITIZE else [],
    )
    for name, path in SOURCES.items()
]

# Guarded, since cythonize may start processes that import this file.
if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildKernels},
        options={"build_ext": {"parallel": CORES}},
        ext_modules=cythonize(
            extensions,
            nthreads=CORES,
            shared_utility_qualified_name=SHARED,
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
