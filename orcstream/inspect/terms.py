"""The words of the page, each explained in a sentence or two for who has not met them.

Knows what the format's terms mean. Must not know any file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a file: what people call it, the `GROUPS` it is drawn as, and what it is for."""

    name: str
    group: str
    meaning: str


GROUPS = {
    "stripe": "stripes",
    "index": "indexes",
    "data": "values",
    "dictionary": "dictionaries",
    "shape": "nulls and lengths",
    "footer": "directories",
    "encrypted": "encrypted",
    "padding": "padding",
}
"""How parts are drawn, and the words beside each pattern."""

PARTS = {
    "header": Term("header", "footer", "The three letters ORC, by which the format is known."),
    "stripe": Term(
        "stripe", "stripe", "A block of rows, columns one after the other. It can be read by itself."
    ),
    "padding": Term(
        "padding", "padding", "Bytes without a use, such as those that keep a stripe within a block."
    ),
    "encrypted_statistics": Term(
        "encrypted stripe statistics", "encrypted", "The statistics of stripes, of encrypted columns."
    ),
    "metadata": Term(
        "stripe statistics",
        "footer",
        "The smallest and largest value of each column in each stripe: stripes without a match are not read.",
    ),
    "footer": Term(
        "file footer", "footer", "The schema, where each stripe lies, and statistics of all rows."
    ),
    "postscript": Term("postscript", "footer", "Compression, format version, and how long the footer is."),
    "postscript_length": Term(
        "length of the postscript", "footer", "The last byte. Readers begin here, and go backwards."
    ),
    "stripe_footer": Term(
        "stripe footer", "footer", "Which streams the stripe has, how long and how encoded."
    ),
    "row_index": Term(
        "row index",
        "index",
        "For each group of rows (10,000 in most files): where it begins in each stream, and its statistics.",
    ),
    "bloom_filter": Term(
        "bloom filter", "index", "Tells of most values that a row group cannot hold them, in a few bits."
    ),
    "present": Term("present", "shape", "A bit for each row: whether there is a value, or null."),
    "data": Term("data", "data", "The values: numbers, characters, or places in the dictionary."),
    "length": Term("length", "shape", "How long each text, list or map is."),
    "dictionary_data": Term("dictionary", "dictionary", "The texts of a column, each once."),
    "dictionary_count": Term("dictionary count", "dictionary", "A stream that no current writer makes."),
    "secondary": Term(
        "secondary", "data", "What a value has besides: nanoseconds of times, scales of decimals."
    ),
    "unknown": Term("unknown stream", "padding", "A stream of a later version of the format."),
    "encrypted_index": Term("encrypted index", "encrypted", "The room of encrypted columns' indexes."),
    "encrypted_data": Term("encrypted data", "encrypted", "The room of encrypted columns' values."),
    "stripe_statistics": Term("stripe statistics", "footer", "Statistics of an encrypted column."),
    "file_statistics": Term("file statistics", "footer", "Statistics of an encrypted column."),
}
"""By the `kind` of a `Part`."""

WAVES = {
    "tail": "the end of the file, by which it is opened",
    "metadata": "what a tool asks of the file besides",
    "statistics": "statistics of stripes, which did not come with the tail",
    "control": "stripe footers, and indexes that come along",
    "index": "indexes of the columns that rows are chosen by",
    "predicate": "the columns of the condition, which are looked at first",
    "data": "the columns that were asked for",
    "rest": "the other columns, where a row may match",
}
"""By the first word of a wave's name: requests of one wave do not wait for each other's answers."""


def group_of(kind: str, *, encrypted: bool = False) -> str:
    """How a part is drawn."""
    return "encrypted" if encrypted else PARTS[kind].group
