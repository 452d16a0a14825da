"""What Drumlin says where it may differ from Apache Kafka: pinned, so that it changes on purpose.

`allowed.py` says in which fields, and why; a field on that list might hold anything without this.
`pytest tests/differential -m "not deep" --record-own` writes down what is said now.
"""

from __future__ import annotations

import ast
import gzip
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from differential.compare import Difference
from differential.transcripts import symbolic

_FILE: Final = Path(__file__).with_name("transcripts") / "own_answers.txt.gz"

#: Ports and folders, which are others in each run.
_OF_THIS_RUN: Final = re.compile(r".*\.configs\[(advertised\.listeners|listeners|log\.dirs)\].*")
#: A field by its step and path, and its value.
Said = dict[tuple[int, str], str]


class OwnAnswers:
    """What was recorded; or, while it is being recorded, what was said so far."""

    def __init__(self, *, is_recording: bool) -> None:
        self._is_recording = is_recording
        self._known = _read() if _FILE.exists() else {}
        self._recorded: dict[str, Said] = {}

    def knows(self, test: str) -> bool:
        """Whether something is pinned of a test."""
        return test in self._known

    @property
    def pinned(self) -> dict[str, Said]:
        """All of it, by test."""
        return self._known

    def check(self, test: str, allowed: Iterable[Difference]) -> str:
        """What has changed in one test's allowed differences; nothing if nothing has."""
        said = {
            (each.step, each.path): repr(symbolic(each.drumlin))
            for each in allowed
            if not _OF_THIS_RUN.fullmatch(each.path)
        }
        if self._is_recording:
            self._known[test] = self._recorded[test] = said
            return ""
        known = self._known.get(test, {})
        changed = sorted(
            key for key in known.keys() | said.keys() if known.get(key) != said.get(key)
        )
        return "\n".join(
            f"  step {step}, {path}\n      pinned: {known.get((step, path), 'no difference')}\n"
            f"      now:    {said.get((step, path), 'no difference')}"
            for step, path in changed
        )

    def save(self) -> None:
        """Write what was recorded, beside what others have written meanwhile."""
        if self._is_recording:
            known = (_read() if _FILE.exists() else {}) | self._recorded
            lines = (repr(each) for each in sorted(known.items()) if each[1])
            _FILE.write_bytes(gzip.compress("\n".join(lines).encode(), 9, mtime=0))


def _read() -> dict[str, Said]:
    lines = gzip.decompress(_FILE.read_bytes()).decode().splitlines()
    return dict(ast.literal_eval(line) for line in lines)
