"""Contract checks for stores: whether a source or sink of bytes keeps what this package relies on.

Re-exports only. Nothing else of the package imports it, and it needs no test framework: a contract is a class
of asynchronous `test_` methods that pytest collects, and `run_contract` runs without pytest.
"""

from __future__ import annotations

from orcstream.byterange import ByteRange, CostModel, RangeBuffer
from orcstream.io.contract.byte_sink import ByteSink
from orcstream.io.contract.byte_source import ByteSource, Suffix
from orcstream.testing.checks import CheckResult, Contract, run_contract
from orcstream.testing.sink_contract import ByteSinkContract
from orcstream.testing.source_contract import ByteSourceContract
from orcstream.testing.stores import AWKWARD_NAMES, SinkStore, SourceStore

__all__ = [
    "AWKWARD_NAMES",
    "ByteRange",
    "ByteSink",
    "ByteSinkContract",
    "ByteSource",
    "ByteSourceContract",
    "CheckResult",
    "Contract",
    "CostModel",
    "RangeBuffer",
    "SinkStore",
    "SourceStore",
    "Suffix",
    "run_contract",
]
