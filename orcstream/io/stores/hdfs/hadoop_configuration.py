"""Hadoop's configuration folder, as far as a client of HDFS over HTTP needs it.

Knows where the folder is looked for, the form of ``core-site.xml`` and ``hdfs-site.xml``, and how both name
the NameNodes of a name service. Must not know any connection, nor what the RPC client reads there by itself.

The files are as trusted as any other bytes: no document types, so no entities; `UsageError` for what is no
configuration. ``xi:include`` is not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import yarl

from orcstream.errors import UsageError

FILES: Final = ("core-site.xml", "hdfs-site.xml")
REFERENCE: Final = re.compile(r"\$\{([^${}\s]+)\}")
RPC_PORT: Final = 8020
# As often as Hadoop itself.
MOST_SUBSTITUTIONS = 20
LONGEST_FILE_BYTES = 16 << 20
LONGEST_VALUE = 1 << 16


def configuration_folder(option: object, environment: Mapping[str, str]) -> str | None:
    """The option, else ``HADOOP_CONF_DIR``, else ``HADOOP_HOME/etc/hadoop``; None for nowhere."""
    if option is not None:
        if not isinstance(option, str | os.PathLike) or not Path(option).is_dir():
            raise UsageError(f"storage_options: hadoop_conf_dir is no folder: {option!r}")
        return os.fspath(option)
    if environment.get("HADOOP_CONF_DIR"):
        return environment["HADOOP_CONF_DIR"]
    home = environment.get("HADOOP_HOME")
    return str(Path(home, "etc", "hadoop")) if home else None


@dataclass(frozen=True, slots=True)
class HadoopConfiguration:
    """Names and values; `folder` is where they are from, for messages."""

    folder: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: str | None) -> HadoopConfiguration:
        """The configuration of a folder; a file that is not there is an empty one. Reads files."""
        values: dict[str, str] = {}
        for name in FILES if folder else ():
            path = Path(folder or "", name)
            try:
                with path.open("rb") as file:
                    data = file.read(LONGEST_FILE_BYTES + 1)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
            values |= properties_of(data, str(path))
        return cls(folder, values)

    def get(self, *names: str) -> str:
        """The value of the first of these properties that has one, references replaced; or empty."""
        found = next((self.values[name] for name in names if self.values.get(name)), "")
        for _ in range(MOST_SUBSTITUTIONS):
            match = REFERENCE.search(found)
            if match is None or len(found) > LONGEST_VALUE:
                return found
            name = match[1]
            value = os.environ.get(name[4:]) if name.startswith("env.") else self.values.get(name)
            if value is None:
                return found
            found = found[: match.start()] + value + found[match.end() :]
        return found

    @property
    def is_simple(self) -> bool:
        """Whether the cluster says that it believes the names of its users."""
        return self.get("hadoop.security.authentication").lower() == "simple"

    @property
    def wants_kerberos(self) -> bool:
        return self.get("hadoop.security.authentication").lower() == "kerberos"

    @property
    def is_https_only(self) -> bool:
        return self.get("dfs.http.policy").upper() == "HTTPS_ONLY"

    def default_authority(self) -> str:
        """``host:port``, or the name service, of ``fs.defaultFS``; empty where it names no HDFS."""
        url = self.get("fs.defaultFS", "fs.default.name")
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in ("hdfs", "webhdfs", "swebhdfs", "viewfs"):
            return ""
        return rest.partition("/")[0]

    @property
    def services(self) -> list[str]:
        """The name services."""
        return _list_of(self.get("dfs.nameservices"))

    def known_web_addresses(self, name: str, scheme: str) -> list[str]:
        """``host:port`` or ``host`` of each NameNode of a name service; `scheme` is http or https."""
        found = [address for suffix in self._suffixes(name) if (address := self._web_address(suffix, scheme))]
        if not found and not _list_of(self.get(f"dfs.ha.namenodes.{name}")):
            found = [address for address in [self.get(f"dfs.namenode.{scheme}-address")] if address]
        return found

    def web_addresses(self, name: str, scheme: str) -> list[str]:
        """The same, which must be there."""
        found = self.known_web_addresses(name, scheme)
        if not found:
            raise UsageError(
                f"{self.folder} has no dfs.namenode.{scheme}-address for the name service {name}"
            )
        return found

    def default_web_address(self, scheme: str) -> str:
        """Of the one NameNode that ``fs.defaultFS`` names by its host: the RPC port is of no use here."""
        url = self.get("fs.defaultFS", "fs.default.name")
        authority = self.default_authority()
        if not url.startswith(("hdfs:", "viewfs:")):
            return authority
        host = _host_of(authority)
        address = self.get(f"dfs.namenode.{scheme}-address")
        if not address:
            return host
        return address.replace("0.0.0.0", host, 1) if address.startswith("0.0.0.0") else address  # noqa: S104

    def rpc_addresses(self, name: str) -> list[str]:
        """``host:port`` of each NameNode of a name service, where its RPC address is known."""
        named = [self.get(f"dfs.namenode.rpc-address.{suffix}") for suffix in self._suffixes(name)]
        return [f"{_host_of(one)}:{_port_of(one) or RPC_PORT}" for one in named if one]

    def rpc_address_of(self, host: str) -> str:
        """``host:port`` of the NameNode of a host: with Hadoop's port, unless there is another one here."""
        default = (
            "" if self.get("fs.defaultFS").startswith(("webhdfs:", "swebhdfs:")) else self.default_authority()
        )
        named = [default, self.get("dfs.namenode.rpc-address")]
        ports = [_port_of(one) for one in named if _host_of(one) == host]
        return f"{host}:{next(filter(None, ports), RPC_PORT)}"

    def _suffixes(self, name: str) -> list[str]:
        """What properties of its NameNodes end with."""
        return [f"{name}.{node}" for node in _list_of(self.get(f"dfs.ha.namenodes.{name}"))] or [name]

    def _web_address(self, suffix: str, scheme: str) -> str:
        address = self.get(f"dfs.namenode.{scheme}-address.{suffix}")
        return address or _host_of(self.get(f"dfs.namenode.rpc-address.{suffix}"))


def properties_of(data: bytes, shown: str) -> dict[str, str]:
    """The properties of one file."""
    if len(data) > LONGEST_FILE_BYTES:
        raise UsageError(f"{shown} is no configuration of Hadoop: too long")
    parser = ET.XMLParser(target=_Builder())  # noqa: S314 - without document types there are no entities
    try:
        parser.feed(data)
        root = parser.close()
    except (ET.ParseError, ValueError, LookupError) as error:
        raise UsageError(f"{shown} is no configuration of Hadoop: {error}") from None
    if root.tag != "configuration":
        raise UsageError(f"{shown} is no configuration of Hadoop: <configuration> is missing")
    return dict(_pairs(root))


def _pairs(root: ET.Element) -> Iterator[tuple[str, str]]:
    for one in root.iter("property"):
        name = one.get("name") or one.findtext("name")
        value = one.get("value") or one.findtext("value")
        if name:
            yield name.strip(), (value or "").strip()


class _Builder(ET.TreeBuilder):
    """A tree without a document type: neither entities that grow nor files that others name."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:  # noqa: ARG002 - of the parser
        raise ValueError("document types are refused")


def _list_of(text: str) -> list[str]:
    return [name for name in re.split(r"[,\s]+", text) if name]


def _host_of(authority: str) -> str:
    try:
        host = yarl.URL(f"//{authority}").host or ""
    except ValueError:
        return ""
    return f"[{host}]" if ":" in host else host


def _port_of(authority: str) -> int | None:
    try:
        return yarl.URL(f"//{authority}").explicit_port
    except ValueError:
        return None
