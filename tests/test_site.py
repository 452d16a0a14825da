"""The documents as a site: what its hooks add to the pages."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path

import markdown
import pytest

from rig.documents.walkthrough import blocks, commands

ROOT = Path(__file__).parents[1]
HOOKS = runpy.run_path(str(ROOT / "script" / "site_hooks.py"))
SHOWN = ["pymdownx.highlight", "pymdownx.superfences"]


@pytest.mark.parametrize(
    "document",
    sorted(path for path in (ROOT / "docs").rglob("*.md") if "```console" in path.read_text()),
    ids=lambda path: path.name,
)
def test_the_button_copies_what_is_typed(document: Path) -> None:
    """A prompt that is pasted is a command that is not found, and so is what was printed."""
    page = markdown.markdown(document.read_text("utf-8"), extensions=SHOWN)
    copied = re.findall(r'data-copy="([^"]*)"', HOOKS["on_page_content"](page))
    shown = [each.text for each in blocks(document) if each.language == "console"]
    assert len(copied) == len(shown) > 0
    for text, block in zip(map(html.unescape, copied), shown, strict=True):
        typed = "\n".join(command.text for command in commands(block))
        assert text == re.sub(r"\s{2,}# .*", "", typed)


def test_other_blocks_are_copied_as_they_are() -> None:
    page = markdown.markdown("```python\nprice = 1\n```", extensions=SHOWN)
    assert HOOKS["on_page_content"](page) == page
