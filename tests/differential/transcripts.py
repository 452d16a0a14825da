"""What Apache Kafka answers to each script, recorded: at each commit Drumlin is compared with that.

One compressed text a test module: what it was recorded of, then a line for each test. Where a
module, or what it is run by, has changed since, the comparison refuses to be made; documentation
and comments may change. `pytest tests/differential --record-kafka` asks Kafka again,
with `-m "not deep"`: what a test says depends on which others have run on the same broker.

Timestamps that scripts count from now are kept as such: `NOW`, and how far from it.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import tokenize
from pathlib import Path
from typing import Any

import pytest

from differential.now import NOW

_FOLDER = Path(__file__).with_name("transcripts")
_TESTS = Path(__file__).parents[1]
#: What all scripts are run by, beside their own module.
_SHARED = (
    *("differential/conftest.py", "differential/normalise.py", "differential/peer.py"),
    *("differential/random_requests.py", "differential/share_members.py"),
    *("rig/data/batches.py", "rig/data/messages.py"),
)
_RECORDING = 'pytest tests/differential -m "not deep" --record-kafka'
_AROUND_NOW_MS = 30 * 24 * 3600 * 1000


class Transcripts:
    """All that is recorded; or, while it is being recorded, what Kafka has said so far."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._new: dict[str, dict[str, Any]] = {}

    def of(self, module: str, test: str) -> Any:
        """What Kafka said in this test; fails if that is not known, or not of this script."""
        if module not in self._known:
            self._known[module] = _load(module)
        if test not in self._known[module]:
            pytest.fail(
                f"nothing is recorded of {test}: DRUMLIN_TEST_DEEP=1 asks Apache Kafka itself, "
                f"`{_RECORDING}` records what it says",
                pytrace=False,
            )
        return self._known[module][test]

    def has(self, module: str, test: str) -> bool:
        """Whether there is such a test, of which something is recorded."""
        if module not in self._known:
            self._known[module] = _load(module)
        return test in self._known[module]

    def record(self, module: str, test: str, said: Any) -> None:
        """Keep it for `save`."""
        self._new.setdefault(module, {})[test] = symbolic(said)

    def save(self) -> None:
        """Write what was recorded; tests that did not run keep what they had, if it still holds."""
        for module, tests in self._new.items():
            printed = fingerprint(module)
            path = _path(module)
            old = _read(path) if path.exists() else ("", {})
            kept = old[1] if old[0] == printed else {}
            lines = [printed, *(_line(each) for each in sorted({**kept, **tests}.items()))]
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress("\n".join(lines).encode(), 9, mtime=0))


def symbolic(said: Any) -> Any:
    """Plain values in which no timestamp depends on when they were recorded."""
    if isinstance(said, dict):
        return {key: symbolic(value) for key, value in said.items()}
    if isinstance(said, list | tuple):
        return [symbolic(each) for each in said]
    if type(said) is int and abs(said - NOW) < _AROUND_NOW_MS:
        return f"<NOW{said - NOW:+}>"
    return said


def fingerprint(module: str) -> str:
    """A hash of all that a module's requests depend on, without spaces, comments and docstrings."""
    digest = hashlib.sha256()
    for name in (f"{module.replace('.', '/')}.py", *_SHARED, *_of_its_folder(module)):
        digest.update(code_alone((_TESTS / name).read_text("utf-8")).encode())
    return digest.hexdigest()


def _of_its_folder(module: str) -> list[Path]:
    """What the modules of a folder below this one are run by as well."""
    folder = Path(*module.split(".")[:-1])
    if folder == Path("differential"):
        return []
    return sorted(
        path for path in (_TESTS / folder).glob("*.py") if not path.name.startswith("test_")
    )


def code_alone(source: str) -> str:
    """A source without spaces, comments and documentation."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[row - 1] = ""
    return "".join("".join(line.split()) for line in lines)


def _line(said: tuple[str, Any]) -> str:
    text = repr(said)
    assert ast.literal_eval(text) == said, "only plain values can be recorded"
    return text


def _path(module: str) -> Path:
    return _FOLDER / f"{module.rpartition('.')[2]}.txt.gz"


def _load(module: str) -> dict[str, Any]:
    path = _path(module)
    if not path.exists():
        pytest.fail(f"nothing is recorded of {module}: see {__name__}", pytrace=False)
    recorded, tests = _read(path)
    if recorded != fingerprint(module):
        pytest.fail(
            f"{module}, or what it is run by, has changed since Kafka's answers were recorded: "
            f"run `{_RECORDING}`",
            pytrace=False,
        )
    return tests


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    printed, *lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    return printed, dict(ast.literal_eval(line) for line in lines)
