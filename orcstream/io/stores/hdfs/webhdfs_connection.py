"""Who is asked over WebHDFS, and as whom: connections that the users of one cluster and identity share.

Knows storage options, the environment and Hadoop's configuration, and what they say about NameNodes, users
and tokens. Must not know how a call is made; of answers it knows where they name DataNodes. A name that
stands for several NameNodes is resolved here; which of them is active turns out when they are asked
(`io.stores.hdfs.webhdfs`).

A NameNode counts a DataNode as alive for ten minutes after its end, and sends requests there. It leaves out
the nodes in `excludedatanodes`, each by its address for data transfer. A redirect has the address for HTTP;
the places of a file's blocks have both.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import yarl

from orcstream.errors import UsageError
from orcstream.io.loop.clients import Lease, lease_client, tls_of
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.stores.hdfs.hadoop_configuration import HadoopConfiguration, configuration_folder
from orcstream.io.stores.hdfs.hadoop_rest import member, new_session
from orcstream.io.stores.hdfs.hadoop_tokens import read_tokens, services_of, token_for

DEFAULT_PORTS: Final = {"http": 9870, "https": 9871}
OPTIONS: Final = frozenset(
    {"host", "port", "user", "password", "token", "proxy_to", "use_https", "session_verify", "data_proxy"}
    | {"hadoop_conf_dir"}
    | {"kerberos"}  # which is not asked for, where this module is
)
LONGEST_NOTE = 300
# So long, a node is left out. It may be back by then, and others may be gone.
AVOIDED_S: Final = 60.0
# Of so many nodes, so that a request stays short.
MOST_AVOIDED: Final = 50
# What Hadoop's own clients take from the environment.
ENVIRONMENT: Final = ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_TOKEN_FILE_LOCATION")


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


@dataclass(slots=True)
class HdfsConnection:
    """What the users of one cluster and identity share: connections, and who asks."""

    session: aiohttp.ClientSession
    name_nodes: list[yarl.URL]
    """Their origins. The first is the one that answered last, as far as is known."""
    identity: tuple[tuple[str, str], ...] = field(repr=False)
    password: Mapping[str, str] = field(repr=False)
    """The header that holds it, where there is one."""
    data_proxy: Callable[[str], str]
    note: str = ""
    """Why no token goes with the requests, although there are some; for errors."""
    avoided: AvoidedNodes = field(default_factory=AvoidedNodes)
    """DataNodes that did not answer."""

    def pass_over(self, origin: yarl.URL) -> None:
        """Ask another NameNode from now on, unless somebody has turned to one already."""
        if self.name_nodes[0] == origin:
            self.name_nodes.append(self.name_nodes.pop(0))

    async def aclose(self) -> None:
        await self.session.close()


async def lease_webhdfs(options: Mapping[str, Any], shown: str) -> Lease[HdfsConnection]:
    """A share of the running loop's connections for these options and the environment.

    `options` are those of fsspec's file system of the same name, but for Kerberos, and `hadoop_conf_dir`.
    """
    unknown = sorted(str(name) for name in set(options) - OPTIONS)
    if unknown:
        names = ", ".join(sorted(OPTIONS))
        raise UsageError(f"storage_options: WebHDFS knows no {unknown[0]}; there are {names}", url=shown)
    if options.get("token") and options.get("user"):
        raise UsageError("storage_options: a token stands for its user; give one of the two", url=shown)
    if options.get("password") and not options.get("user"):
        raise UsageError("storage_options: a password needs its user", url=shown)
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    key = {**options, "environment": environment}
    return await lease_client("webhdfs", key, lambda: _connect(options, environment, shown))


async def _connect(options: Mapping[str, Any], environment: Mapping[str, str], shown: str) -> HdfsConnection:
    data_proxy = _data_proxy(options.get("data_proxy"), shown)
    try:
        name_nodes, identity, note = await run_in_thread(lambda: _settle(options, environment))
    except UsageError as error:
        raise error.locate(url=shown) from None
    password: dict[str, str] = {}
    if options.get("password"):
        pair = f"{options['user']}:{options['password']}".encode()
        password["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    tls = await tls_of(options.get("session_verify"), "session_verify", shown)
    return HdfsConnection(new_session(tls), name_nodes, identity, password, data_proxy, note)


Identity = tuple[tuple[str, str], ...]


def _settle(
    options: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[list[yarl.URL], Identity, str]:
    """The NameNodes, who asks them, and why no token does. Reads files."""
    folder = configuration_folder(options.get("hadoop_conf_dir"), environment)
    configuration = HadoopConfiguration.read(folder)
    scheme = "https" if options.get("use_https") or configuration.is_https_only else "http"
    host, port = str(options.get("host") or ""), options.get("port")
    service = host
    if not host:
        service = configuration.default_authority()
        if not service:
            raise UsageError(
                "no NameNode is named: webhdfs://host:port/path, or fs.defaultFS in HADOOP_CONF_DIR"
            )
    if port is None and service in configuration.services:
        addresses = configuration.web_addresses(service, scheme)
    elif host:
        addresses = [f"[{host}]" if ":" in host else host]
    else:
        addresses = [configuration.default_web_address(scheme)]
    name_nodes = [_origin(scheme, address, port) for address in addresses]
    return name_nodes, *_identity(options, environment, configuration, name_nodes)


def _identity(
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    configuration: HadoopConfiguration,
    name_nodes: list[yarl.URL],
) -> tuple[Identity, str]:
    user, token, note = options.get("user"), options.get("token"), ""
    tokens_path = environment.get("HADOOP_TOKEN_FILE_LOCATION")
    if not user and not token and tokens_path and not configuration.is_simple:
        tokens = read_tokens(tokens_path)
        found = token_for(tokens, _token_services(configuration, name_nodes))
        token, others = found.url_text if found else None, ", ".join(services_of(tokens))
        if not token and others:
            note = f"HADOOP_TOKEN_FILE_LOCATION has tokens for {others[:LONGEST_NOTE]} only"
    if not user and not token:
        if configuration.wants_kerberos:
            raise UsageError(
                "the cluster believes no names (hadoop.security.authentication is kerberos): give token= or "
                f"HADOOP_TOKEN_FILE_LOCATION, or kerberos=True{note and f'; {note}'}"
            )
        user = environment.get("HADOOP_USER_NAME")
    named = [("user.name", user), ("delegation", token), ("doas", options.get("proxy_to"))]
    return tuple((name, str(value)) for name, value in named if value), note


def _token_services(configuration: HadoopConfiguration, name_nodes: list[yarl.URL]) -> list[str]:
    """How tokens for these NameNodes may name them: by name service, or by address for HTTP or RPC."""
    found = [f"{origin.host}:{origin.port}" for origin in name_nodes]
    scheme = name_nodes[0].scheme
    names = [
        name
        for name in configuration.services
        if any(
            _origin(scheme, one, None) in name_nodes
            for one in configuration.known_web_addresses(name, scheme)
        )
    ]
    for name in names:
        found += [f"ha-{scheme}:{name}" for scheme in ("webhdfs", "swebhdfs", "hdfs")]
        found += configuration.rpc_addresses(name)
    if not names:
        found += [configuration.rpc_address_of(origin.host or "") for origin in name_nodes]
    return found


def _origin(scheme: str, address: str, port: object) -> yarl.URL:
    try:
        parsed = yarl.URL(f"{scheme}://{address}")
        number = int(str(port)) if port else parsed.explicit_port or DEFAULT_PORTS[scheme]
        return yarl.URL.build(scheme=scheme, host=parsed.host or "", port=number).origin()
    except (ValueError, TypeError):
        raise UsageError("the NameNode's host and port are no address") from None


def _data_proxy(given: object, shown: str) -> Callable[[str], str]:
    """How the address of a DataNode becomes one that can be reached from here."""
    if given is None:
        return lambda location: location
    if callable(given):
        return given
    if not isinstance(given, Mapping):
        raise UsageError("storage_options: data_proxy must be a function or a dictionary", url=shown)
    replacements = dict(given)

    def replace(location: str) -> str:
        for old, new in replacements.items():
            location = location.replace(old, new, 1)
        return location

    return replace


def transfer_address(blocks: Any, node: yarl.URL) -> str | None:
    """The address for data transfer of the node at this address for HTTP.

    `blocks` is the answer to ``GET_BLOCK_LOCATIONS``, whatever it is.
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
