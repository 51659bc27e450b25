"""The page about observability says what there is: loggers, counters, spans, variables of the environment."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

import orcstream
from orcstream.io.stores.hdfs import native as hdfs_native
from orcstream.io.stores.hdfs import webhdfs_connection
from tests.meta.tree import PACKAGE, ROOT, source_files

PAGE = (ROOT / "docs" / "observability.md").read_text()
# Where other tools' variables are looked at; each is on the page.
LOOKS_AT_THE_ENVIRONMENT = {
    "acid/transactions/metastore_client.py": {"HADOOP_USER_NAME"},
    "io/stores/hdfs/hadoop_configuration.py": {"HADOOP_CONF_DIR", "HADOOP_HOME"},
    "io/stores/hdfs/native.py": set(hdfs_native.ENVIRONMENT),
    "io/stores/hdfs/webhdfs_connection.py": set(webhdfs_connection.ENVIRONMENT),
    "spark/write/options.py": {"TZ"},
    "io/stores/s3/client.py": {"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"},
    # Says to Spark which Python runs.
    "cli/commands/job.py": set(),
}


def _part(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def _words(tree: ast.AST) -> Iterator[str]:
    """Names and attributes of a module, as they are called; no texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.keyword) and node.arg == "trust_env":
            yield f"trust_env={ast.unparse(node.value)}"


def test_no_environment_variable_is_read_that_the_page_does_not_list() -> None:
    found = set()
    for path in source_files("orcstream"):
        if path.suffix == ".py":
            words = set(_words(ast.parse(path.read_text())))
            if words & {"environ", "getenv", "expandvars", "get_environ_proxies", "trust_env=True"}:
                found.add(str(path.relative_to(PACKAGE)))
    # What is handed the environment looks at it, too.
    assert found | {"io/stores/hdfs/hadoop_configuration.py"} == set(LOOKS_AT_THE_ENVIRONMENT)
    listed = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", _part("The environment")))
    assert listed == set().union(*LOOKS_AT_THE_ENVIRONMENT.values())


def test_every_logger_is_on_the_page() -> None:
    used = set()
    for path in source_files("orcstream"):
        if path.suffix == ".py":
            used |= set(re.findall(r"logger_of\((\".*?\")\)", path.read_text()))
    listed = set(re.findall(r"^\| `(orcstream[\w.]*)`", _part("Logging"), re.MULTILINE))
    assert {f'"{name}"' for name in listed} == used


def test_every_counter_is_on_the_page() -> None:
    rows = re.findall(r"^\| (`.*?) \|", _part("Figures of a read"), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == {field.name for field in dataclasses.fields(orcstream.ReadStatistics)}


def test_every_attribute_of_spans_is_on_the_page() -> None:
    source = (PACKAGE / "integrations" / "opentelemetry.py").read_text()
    used = set(re.findall(r'"(orcstream\.[a-z_.]+|url\.\w+|file\.\w+|thread\.\w+|error\.\w+)"', source))
    named = set(re.findall(r"`([\w. ]+)`", _part("OpenTelemetry")))
    assert len(used) > 8
    assert used <= named
