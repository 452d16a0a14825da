"""Hooks of MkDocs: pages for the documents outside `docs`, and links between them.

On GitHub and in an editor a link names the file where it lies; on the site all pages are below
`docs`. The copy button of a shell block gives the commands, without prompts and output. Owns
nothing else, and must never change what a page says.
"""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "tests/README.md")
_UP: Final = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, _PAGES))})")
_DOWN: Final = re.compile(r"\]\(((?:\.\./)*)docs/([^)]+)\)")
_BLOCK: Final = re.compile(r'<div class="highlight">(?=<pre>(.*?)</pre>)', re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
#: Interactive shells may take a comment for arguments.
_COMMENT: Final = re.compile(r"\s{2,}# .*")


def on_config(config: Any) -> None:
    version = runpy.run_path(str(ROOT / "src" / "drumlin" / "version.py"))["__version__"]
    config["copyright"] = f"Drumlin {version}"


def on_files(files: Files, config: Any) -> Files:
    for name in _PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri in _PAGES:
        return _DOWN.sub(r"](\1\2)", markdown)
    depth = page.file.src_uri.count("/")
    return _UP.sub(lambda found: f"]({'../' * depth}{found[1]}", markdown)


def on_page_content(content: str, **_: Any) -> str:
    return _BLOCK.sub(_with_copy, content)


def _with_copy(found: re.Match[str]) -> str:
    typed = commands(html.unescape(_TAG.sub("", found[1])))
    return f'{found[0][:-1]} data-copy="{html.escape(typed)}">' if typed else found[0]


def commands(block: str) -> str:
    """What is typed in a shell block: what stands behind `$`, and behind `>` where that goes on."""
    lines = [line[2:] for line in block.splitlines() if line.startswith(("$ ", "> "))]
    return "\n".join(_COMMENT.sub("", line) for line in lines)
