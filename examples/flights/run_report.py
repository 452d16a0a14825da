"""The run as one HTML file that needs nothing else: its story, its tables, its pictures."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ max-width: 1100px; margin: 2em auto; padding: 0 1em }}
body {{ font: 16px/1.5 sans-serif; color: #222 }}
pre {{ font: 13px/1.3 monospace; overflow-x: auto }}
figure {{ margin: 2em 0 }}
img {{ max-width: 100% }}
</style>
<h1>{title}</h1>
<ul>
{story}
</ul>
{pictures}
{tables}
</html>
"""
_TABLE_COLUMNS = 100


def write(
    path: Path,
    title: str,
    story: Sequence[str],
    pictures: Sequence[Path],
    tables: Sequence[RenderableType],
) -> None:
    """Write the report; the pictures, which are PNGs, are copied into it."""
    page = _PAGE.format(
        title=html.escape(title),
        story="\n".join(f"<li>{html.escape(line)}</li>" for line in story),
        pictures="\n".join(map(_picture, pictures)),
        tables="\n".join(map(_table, tables)),
    )
    path.write_text(page, "utf-8")


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    name = html.escape(path.stem)
    return f'<figure><img alt="{name}" src="data:image/png;base64,{data}"></figure>'


def _table(table: RenderableType) -> str:
    console = Console(record=True, file=io.StringIO(), width=_TABLE_COLUMNS, highlight=False)
    console.print(table)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
