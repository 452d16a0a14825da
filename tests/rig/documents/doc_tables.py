"""`script/doc_tables.py`, which is no module of a package: what documents say in tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

_PATH = Path(__file__).parents[3] / "script" / "doc_tables.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("doc_tables", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


doc_tables = _load()
