"""The command line's keys: `--keys`, and the command that shows which columns they open.

Knows the package's public names and how encrypted columns look as text. Must not know how keys are had.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orcstream
from orcstream._printable import printable
from orcstream.cli.arguments import Options, add_flag, add_options, column_names
from orcstream.cli.output import aligned
from orcstream.encryption import KeyProvider
from orcstream.io.keys.open import open_keys
from orcstream.io.loop.uncancelled import until_over
from orcstream.schema.schema import find_column
from orcstream.schema.types import Type

STORES_HELP = """--keys takes the path of a file of keys, or
  kms://http@HOST:9600/kms    Hadoop KMS or Ranger KMS
  aws-kms://REGION            AWS KMS
  gcp-kms://projects/P/locations/L/keyRings/R
  azure-kv://VAULT            Azure Key Vault"""
KEYS_HELP = f"""{STORES_HELP}
Columns whose key is refused are read as their masks left them, unless --require-keys."""


def add_rekeying(command: Options) -> None:
    """The options that give stripes other keys."""
    add_options(command, "--keys")
    add_flag(command, "--rekey", "encrypt columns anew, under the current versions of their keys")
    command.add_argument(
        "--new-key",
        action="append",
        type=_renamed,
        metavar="OLD=NEW",
        help="encrypt anew, under another key in place of this one; repeatable",
    )
    add_options(command, "--target-keys", help="where the new keys are (default: --keys)")


def rekeying(options: argparse.Namespace) -> bool | dict[str, str]:
    """What the options say of new keys, for `orcstream.merge`."""
    return dict(options.new_key) if options.new_key else bool(options.rekey)


def _renamed(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r} must be the names of two keys, old=new")
    return old, new


@asynccontextmanager
async def opened_keys(place: str | None) -> AsyncIterator[KeyProvider | None]:
    """The key store that was named; None without one."""
    if place is None:
        yield None
        return
    provider = await open_keys(place)
    try:
        yield provider
    finally:
        await until_over(provider.aclose())


def opened(options: argparse.Namespace, url: str, keys: KeyProvider | None) -> Any:
    """An ORC file to be opened, as the options say."""
    return orcstream.open(
        url, storage_options=options.storage_options, keys=keys, require_keys=options.require_keys
    )


def add_encryption(command: Options) -> None:
    """The options that encrypt and mask columns of what is written."""
    command.add_argument(
        "--encrypt",
        action="append",
        type=_of_columns,
        metavar="KEY:COLUMN,COLUMN",
        help="columns to encrypt with a key of --keys; repeatable",
    )
    command.add_argument(
        "--mask",
        action="append",
        type=_of_columns,
        metavar="MASK:COLUMN,COLUMN",
        help="what stands for the values of columns that are encrypted, or for all of them: nullify, sha256, "
        "redact; repeatable",
    )
    purpose = "write in the clear what SOURCE has encrypted and neither --encrypt nor --mask hides"
    add_flag(command, "--decrypt", purpose)


def _of_columns(text: str) -> tuple[str, Any]:
    """What stands before the first colon that is not between backquotes, and the columns behind it."""
    quoted = False
    for at, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif character == ":" and not quoted and at:
            found = column_names(text[at + 1 :])
            if found:
                return text[:at], found
            break
    raise argparse.ArgumentTypeError(f"{text!r} has no columns; write NAME:column,column")


def encryption(options: argparse.Namespace) -> tuple[list[orcstream.Encrypt], dict[Any, str]]:
    """What the options say, for `orcstream.create`: columns to encrypt, and those to mask only.

    Raises UsageError where columns are to be encrypted and no keys are given.
    """
    if options.encrypt and options.keys is None:
        raise orcstream.UsageError("--encrypt needs --keys STORE: where the keys are")
    masks = {column: mask for mask, columns in options.mask or () for column in columns}
    encrypt = [
        orcstream.Encrypt(key, [column], masks.pop(column, "nullify"))
        for key, columns in options.encrypt or ()
        for column in columns
    ]
    return encrypt, masks


def hidden_columns(options: argparse.Namespace) -> frozenset[str]:
    """The top-level columns that are to be encrypted or masked, or hold what is."""
    paths = [path for _, columns in (*(options.encrypt or ()), *(options.mask or ())) for path in columns]
    # A dotted path may also be the name of a column that has a dot.
    ways = [(path[0],) if isinstance(path, tuple) else (path, path.partition(".")[0]) for path in paths]
    return frozenset(name for way in ways for name in way)


def check_hidden(file: orcstream.OrcFile, schema: orcstream.Schema, options: argparse.Namespace) -> None:
    """Raises UsageError for columns of `schema` that the file hides, and what is written would not.

    Hidden there are columns that are encrypted, or masked, unless --decrypt says that they need not be.
    """
    encrypt, masks = encryption(options)
    if options.decrypt:
        return
    hidden: set[int] = set()
    for name in (*(one for some in encrypt for one in some.columns), *masks):
        hidden.update(_type_at(schema, name).column_ids)
    shown = []
    for column in file.encrypted_columns:
        try:
            wanted = _type_at(schema, column.path) if column.is_open else None
        except orcstream.ColumnNotFound:
            continue  # is not read
        if wanted is not None and not hidden.issuperset(wanted.column_ids):
            shown.append(column.name or "(the root)")
    if shown:
        raise orcstream.UsageError(
            f"encrypted columns would be written in the clear: {', '.join(shown)}; --encrypt or --mask them, "
            "leave them out with --columns, or say --decrypt",
            url=file.url,
        )


def _type_at(schema: orcstream.Schema, path: str | tuple[str, ...]) -> Type:
    type_ = schema.root
    for index in find_column(type_, path) if path else ():
        type_ = type_.children[index]
    return type_


def say_masked(columns: Sequence[str]) -> None:
    """A note for people that what they see is not what was encrypted."""
    if columns:
        names = printable(", ".join(columns))
        sys.stderr.write(f"orcstream: masked, since their keys were not had: {names}\n")


def key_facts(file: orcstream.OrcFile) -> dict[str, Any]:
    """What a file says of its encrypted columns, and which of them are open."""
    encryption = file.tail.footer.encryption
    return {
        "url": file.url,
        "key_provider": encryption.key_provider.name if encryption is not None else None,
        "columns": [_facts(column) for column in file.encrypted_columns],
    }


def key_lines(found: Mapping[str, Any]) -> list[str]:
    """The same as text."""
    columns = found["columns"]
    if not columns:
        return ["no column is encrypted"]
    rows = [("column", "key", "version", "algorithm", "mask", "open")]
    for facts in columns:
        for number, key in enumerate(facts["keys"]):
            is_open = facts["is_open"] and key == facts["opened_with"]
            rows.append(
                (
                    facts["column"] if number == 0 else "",
                    key["name"],
                    str(key["version"]),
                    key["algorithm"],
                    facts["mask"] if number == 0 else "",
                    "yes" if is_open else "not needed" if facts["is_open"] else "no",
                )
            )
    lines = aligned(rows, len(rows[0]))
    lines += sorted({facts["refusal"] for facts in columns if facts["refusal"]})
    return [f"keys are in: {found['key_provider']}", *lines]


def _facts(column: orcstream.EncryptedColumn) -> dict[str, Any]:
    keys = [
        {"name": key.name, "version": key.version, "algorithm": key.algorithm.name} for key in column.keys
    ]
    mask = column.mask
    return {
        "column": column.name or "(the root)",
        "keys": keys,
        "mask": "?" if mask is None else ",".join((mask.name, *mask.parameters)),
        "is_open": column.is_open,
        "opened_with": keys[column.keys.index(column.key)] if column.is_open else None,
        "refusal": column.refusal,
    }
