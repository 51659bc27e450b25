"""DataNodes that did not answer over WebHDFS, so that the NameNode names others.

A NameNode counts a DataNode as alive for ten minutes after its end, and sends requests there. It leaves out
the nodes in `excludedatanodes`, each by its address for data transfer. A redirect has the address for HTTP;
the places of a file's blocks have both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import yarl

from orcstream.io.stores.hdfs.hadoop_rest import member

# So long, a node is left out. It may be back by then, and others may be gone.
AVOIDED_S: Final = 60.0
# Of so many nodes, so that a request stays short.
MOST_AVOIDED: Final = 50


class AvoidedNodes:
    """The nodes that all users of a connection leave out, each for `AVOIDED_S` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def add(self, address: str) -> None:
        """Leave out the node with this address for data transfer."""
        self._until.pop(address, None)
        self._until[address] = self._clock() + AVOIDED_S
        while len(self._until) > MOST_AVOIDED:
            del self._until[next(iter(self._until))]

    def clear(self) -> None:
        """Leave out none: the NameNode has no other."""
        self._until.clear()

    def option(self) -> dict[str, str]:
        """The option of a request."""
        now = self._clock()
        self._until = {address: until for address, until in self._until.items() if until > now}
        return {"excludedatanodes": ",".join(self._until)} if self._until else {}


def transfer_address(blocks: Any, node: yarl.URL) -> str | None:
    """The address for data transfer of the node at this address for HTTP.

    Parameters
    ----------
    blocks
        The answer to ``GET_BLOCK_LOCATIONS``, whatever it is.
    node
        Where the NameNode sent a request.

    """
    located = member(member(blocks, "LocatedBlocks"), "locatedBlocks")
    for block in located if isinstance(located, list) else ():
        places = member(block, "locations")
        for place in places if isinstance(places, list) else ():
            address, port = member(place, "ipAddr"), member(place, "xferPort")
            hosts = (address, member(place, "hostName"))
            ports = (member(place, "infoPort"), member(place, "infoSecurePort"))
            if node.host in hosts and node.port in ports and _is_address(address, port):
                return f"{address}:{port}"
    return None


def _is_address(address: object, port: object) -> bool:
    """Whether these can be sent: a comma would name another node."""
    is_text = isinstance(address, str) and address.replace(".", "").isalnum() and address.isascii()
    return is_text and isinstance(port, int) and 0 < port < 1 << 16


def avoids_all(reason: str, avoided: Mapping[str, str]) -> bool:
    """Whether the NameNode refused because it has no node but those that are left out."""
    return bool(avoided) and "exclude" in reason
