"""The page: what was found out about a file, for a browser.

Knows which sections there are and that the page needs nothing but itself: no request leaves it, which its
content security policy enforces. Must not know how facts are had. Contract: whatever the file, a page of
bounded size; what is left out is counted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from orcstream.figures import bytes_text, counted
from orcstream.inspect.drawing import patterns
from orcstream.inspect.facts import FileFacts, Question, Run
from orcstream.inspect.markup import Html, joined, tag
from orcstream.inspect.page_file import columns_section, layout_section, stripes_section
from orcstream.inspect.page_read import question_section, run_section
from orcstream.inspect.terms import PARTS, WAVES

_PROBLEMS = 50


def page_of(file: FileFacts, question: Question | None, run: Run | None, problems: Sequence[str]) -> str:
    """The whole page."""
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    name = file.url.rstrip("/").rpartition("/")[2] or file.url
    sections = [
        ("layout", "Where the bytes are", layout_section(file)),
        ("stripes", "Stripes", stripes_section(file)),
        ("columns", "Columns", columns_section(file)),
    ]
    if question is not None:
        sections.append(("question", "The question", question_section(file, question)))
    if run is not None:
        sections.append(("run", "The read, measured", run_section(file, run)))
    sections.append(("words", "The words", _words()))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="orcstream inspect"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{name}: orcstream inspect"),
        tag("style", Html(style)),
    )
    contents = [tag("li", tag("a", title, href=f"#{key}")) for key, title, _ in sections]
    body = tag(
        "body",
        tag("a", "Skip to the layout", href="#layout", class_="skip"),
        patterns(),
        tag(
            "header",
            tag("h1", tag("bdi", name)),
            tag("p", tag("bdi", file.url), class_="url"),
            _summary(file),
        ),
        tag("nav", tag("ul", *contents), aria_label="Sections"),
        tag("main", _problems(problems), *(_section(*section) for section in sections)),
        tag("footer", "Made by orcstream inspect. The page asks nobody for anything."),
        tag("script", Html(script)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en")


def _asset(name: str) -> str:
    return resources.files("orcstream.inspect").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(key: str, title: str, content: Html) -> Html:
    return tag(
        "section", tag("h2", title, id=f"h-{key}"), content, id=key, aria_labelledby=f"h-{key}", tabindex="-1"
    )


def _summary(file: FileFacts) -> Html:
    version = f"{file.writer} {file.software_version}".strip()
    facts = {
        "Size": bytes_text(file.file_length),
        "Rows": f"{file.row_count:,}",
        "Stripes": f"{len(file.stripes):,}",
        "Columns": f"{len(file.columns) - 1:,}",
        "Compression": file.compression.lower(),
        "Compressed in chunks of": bytes_text(file.compression_block_size)
        if file.compression != "NONE"
        else None,
        "Rows in a row group": f"{file.row_index_stride:,}" if file.row_index_stride else "no indexes",
        "Written by": version,
        "Format": file.format_version,
        "Encrypted columns": "yes" if file.encrypted else None,
    }
    shown = [
        tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items() if value is not None
    ]
    metadata = [
        tag("div", tag("dt", tag("bdi", name)), tag("dd", tag("bdi", value)))
        for name, value in file.user_metadata.items()
    ]
    more = (
        tag("details", tag("summary", "User metadata"), tag("dl", *metadata, class_="facts"))
        if metadata
        else None
    )
    schema = tag("details", tag("summary", "Schema"), tag("p", tag("code", tag("bdi", file.schema))))
    return joined([tag("dl", *shown, class_="facts"), schema, more])


def _problems(problems: Sequence[str]) -> Html | None:
    if not problems:
        return None
    lines = [tag("li", one) for one in problems[:_PROBLEMS]]
    if len(problems) > _PROBLEMS:
        lines.append(tag("li", f"and {counted(len(problems) - _PROBLEMS, 'more problem')}"))
    return tag(
        "section",
        tag("h2", "Problems", id="h-problems"),
        tag("ul", *lines),
        class_="problems",
        aria_labelledby="h-problems",
    )


def _words() -> Html:
    parts = {term.name: term.meaning for term in PARTS.values()}
    waves = {f"wave: {name}": f"Requests for {meaning}." for name, meaning in WAVES.items()}
    words = {
        **parts,
        "stream": "Bytes of one column and one purpose in a stripe: its values, its lengths, its nulls.",
        "row group": "Some rows of a stripe that its indexes tell apart.",
        "encoding": "How values become bytes: DIRECT as they are, DICTIONARY by their place among the "
        "distinct ones; V2 with the newer run lengths.",
        "wave": "Requests that are sent without waiting for each other's answers.",
        "hop": "A wave that has to be waited for: it costs the store's latency in full.",
        **waves,
    }
    lines = [one for word in sorted(words) for one in (tag("dt", word), tag("dd", words[word]))]
    return tag("details", tag("summary", "What each word means"), tag("dl", *lines, class_="words"))
