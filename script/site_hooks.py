"""Hooks of MkDocs: pages for the documents in the root of the checkout, and links between them.

On GitHub and in an editor a link names the file where it lies; on the site all pages are below
`docs`. Owns nothing else, and must never change what a page says.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_UP: Final = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, _PAGES))})")
_DOWN: Final = re.compile(r"\]\(docs/([^)]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for name in _PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri in _PAGES:
        return _DOWN.sub(r"](\1)", markdown)
    depth = page.file.src_uri.count("/")
    return _UP.sub(lambda found: f"]({'../' * depth}{found[1]}", markdown)
