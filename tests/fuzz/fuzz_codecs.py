"""Any chunk in: what the packages make of it, or `CorruptStream`, out; memory beside is left alone.

Run as ``python -m tests.fuzz.fuzz_codecs SECONDS`` with kernels that AddressSanitizer checks. Chunks and
what they are decompressed to lie in blocks of just their size; a second time they lie between guards, and
are compared with what the packages' own calls say.
"""

from __future__ import annotations

import ctypes
import random
import sys
import time
from contextlib import suppress

from orcstream.codec.streams._codecs import Codec
from orcstream.codec.streams.compression import Compression, Compressor, Decompressor
from orcstream.errors import CorruptStream
from tests.support import chunk_codecs
from tests.support.encoding import chunk_of

CODECS = {kind: Decompressor(kind) for kind in chunk_codecs.PACK}
COMPRESSORS = {kind: Compressor(kind) for kind in chunk_codecs.PACK}


def decompress_in_exact_memory(codec: Codec, chunk: bytes, room: int) -> None:
    source = (ctypes.c_ubyte * len(chunk)).from_buffer_copy(chunk)
    with suppress(CorruptStream):
        codec(source, (ctypes.c_ubyte * room)())


def there_and_back(kind: Compression, rng: random.Random) -> None:
    data = chunk_codecs.plain(rng, rng.randint(1, 5000))
    chunk = chunk_of(COMPRESSORS[kind], (ctypes.c_ubyte * len(data)).from_buffer_copy(data))
    assert chunk is None or chunk_codecs.outcome(CODECS[kind], chunk[3:], len(data)) == data


def main(arguments: list[str]) -> int:
    stop = time.monotonic() + (float(arguments[0]) if arguments else 60.0)
    seed = random.SystemRandom().randrange(1 << 40)
    tried = accepted = 0
    while time.monotonic() < stop:
        for kind, codec in CODECS.items():
            rng = random.Random(seed + tried)
            case = chunk_codecs.case(kind, rng)
            try:
                decompress_in_exact_memory(codec, *case)
                accepted += chunk_codecs.check(kind, *case)
                there_and_back(kind, rng)
            except BaseException:
                sys.stderr.write(f"input {seed + tried} of {kind} breaks the invariant\n")
                raise
        tried += 1
    sys.stdout.write(
        f"{tried} chunks of each of {len(CODECS)} codecs from seed {seed}, "
        f"of which {accepted} hold something: the invariant holds\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
