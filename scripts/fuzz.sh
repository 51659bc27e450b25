#!/usr/bin/env bash
# Builds the kernels with AddressSanitizer and Cython's bounds checks in a copy of the package, and runs the
# fuzz targets over them, that of chunks for a quarter of the time. Usage: FUZZ_SECONDS=60 scripts/fuzz.sh PYTHON
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$PWD/$1
copy=.cache/asan

mkdir -p "$copy"
# Sources are copied anew and keep their times, so that only changed kernels are compiled again; what the
# checkout has built stays out.
find "$copy" -type f ! -name '*.so' ! -name '*.c' ! -name '*.o' -delete
for folder in orcstream tests; do
    (cd "$folder" && find . -name '*.py' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd') |
        tar -C "$folder" -c -T - | (mkdir -p "$copy/$folder" && tar -C "$copy/$folder" -x)
done
cp -p setup.py pyproject.toml README.md LICENSE "$copy"

cd "$copy"
ORCSTREAM_SANITIZE=1 "$python" setup.py --quiet build_ext --inplace
"$python" -c 'import orcstream, os; assert orcstream.__file__.startswith(os.getcwd()), orcstream.__file__'

# Python itself leaks at exit by design; its allocator would hide overruns of small objects.
sanitized() {
    LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc "$python" -m "$@"
}
seconds=${FUZZ_SECONDS:-60}
sanitized tests.fuzz.fuzz_codecs "$((seconds / 4))"
sanitized tests.fuzz.fuzz_read "$seconds"
