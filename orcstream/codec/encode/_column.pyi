from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.encode._source import SourceTree
from orcstream.codec.metadata.structure import EncodingKind, StreamKind
from orcstream.codec.streams._encode_values import Encoder
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams._packers import Packer
from orcstream.schema.types import Type

class ColumnEncoder:
    type: Type
    children: tuple[ColumnEncoder, ...]
    group_count: int
    filter_bytes: int
    hash_count: int
    def __init__(
        self,
        type_: Type,
        encoding: EncodingKind,
        streams: Sequence[tuple[StreamKind, Encoder]],
        *,
        children: Sequence[ColumnEncoder] = (),
        filter_bytes: int = 0,
        hash_count: int = 0,
    ) -> None: ...
    @property
    def encoded_as(self) -> tuple[EncodingKind, int]: ...
    def written(self) -> list[tuple[StreamKind, OutStream, int, int]]: ...
    def group(self, index: int) -> tuple[int, bool, Any, Any, Any]: ...
    def positions(self) -> NDArray[np.int64]: ...
    def filter(self, index: int) -> bytes: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...

class Task:
    seconds: float

class EncodeTask(Task):
    def __init__(self, encoder: ColumnEncoder, tree: SourceTree, cuts: NDArray[np.int64]) -> None: ...

class CloseTask(Task):
    def __init__(self, encoder: ColumnEncoder, ends: bool) -> None: ...

class Round:
    def __init__(self, tasks: Sequence[Task]) -> None: ...
    def run(self, packer: Packer | None) -> None: ...
    def check(self) -> None: ...
