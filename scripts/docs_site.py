"""A hook of MkDocs: the site has the repository's files at their own paths, and links are the same in both.

Knows which files those are. MkDocs by itself takes one folder, and the pages here link to what lies
beside it: README.md, which is the front page, the figures of bench, examples.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

PATTERNS = ("*.md", "docs/**/*", "bench/README.md", "examples/**/*")
ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """In place of those of `docs_dir`; the theme's own stay."""
    own = [file for file in files if file.src_dir != config.docs_dir]
    found = sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)})
    return Files(
        [
            *own,
            *(
                File(
                    str(path.relative_to(ROOT)),
                    str(ROOT),
                    config.site_dir,
                    config.use_directory_urls,
                    inclusion=InclusionLevel.INCLUDED,  # so that pages without a place are noticed
                )
                for path in found
                if path.is_file() and "__pycache__" not in path.parts
            ),
        ]
    )
