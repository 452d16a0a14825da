"""The local folder that a URL `parquet:…` names, for materialized tables and for landed lakes.

As in file URLs, `parquet:FOLDER` is relative, `parquet:/FOLDER` and `parquet:///FOLDER` are
absolute, and %3F stands for a question mark.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit


def folder_of(parts: SplitResult) -> Path | None:
    """The folder; None if the URL names a host, another scheme, or nothing."""
    path = re.sub("^/+", "/", unquote(parts.path))
    if parts.netloc or not path or "\0" in path or urlsplit(parts.path).scheme:
        return None
    return Path(path)
