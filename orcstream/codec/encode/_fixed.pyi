from typing import Any

from orcstream.codec.encode._column import ColumnEncoder
from orcstream.codec.vectors.times import ZoneRules

class BooleanEncoder(ColumnEncoder): ...
class ByteColumnEncoder(ColumnEncoder): ...

class IntegerColumnEncoder(ColumnEncoder):
    def __init__(self, *args: Any, item_bytes: int, hybrid: bool = False, **kwargs: Any) -> None: ...

class FloatEncoder(ColumnEncoder):
    def __init__(self, *args: Any, item_bytes: int, **kwargs: Any) -> None: ...

class DecimalEncoder(ColumnEncoder):
    def __init__(self, *args: Any, scale: int, **kwargs: Any) -> None: ...

class TimestampEncoder(ColumnEncoder):
    def __init__(
        self, *args: Any, zone: ZoneRules, mean_time: ZoneRules, hybrid: bool, **kwargs: Any
    ) -> None: ...
