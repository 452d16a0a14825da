"""What docs/compaction-checklist.md says is covered has a test of that name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_is_named_exists() -> None:
    text = (ROOT / "docs" / "compaction-checklist.md").read_text("utf-8")
    named = set(re.findall(r"`(tests/\S+\.py)::(test_\w+)`", text))
    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    ]
    assert named
    assert not missing
