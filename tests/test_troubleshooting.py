"""Each message that docs/troubleshooting.md explains is one that the program has."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from drumlin.wire.error_codes import ErrorCode

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "troubleshooting.md"

#: Messages of Spark's, and reasons that the operating system gives.
OF_OTHERS = {
    "DATA_SOURCE_NOT_FOUND": "Spark",
    "() got an unexpected keyword argument": "Python",
    "JAVA_GATEWAY_EXITED": "Spark",
    "Connection refused": "the operating system",
    "Name or service not known": "the operating system",
}


@functools.cache
def texts() -> str:
    """All string constants of the sources, those of f-strings piece by piece."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\0".join(found)


MESSAGES = re.findall(r"^### `(.*)`$", DOCUMENT.read_text("utf-8"), re.MULTILINE)


def pieces(message: str) -> list[str]:
    """What does not differ from case to case, without the names of error codes."""
    code, separator, rest = message.partition(": ")
    if separator and code in ErrorCode.__members__:
        message = rest
    for foreign in OF_OTHERS:
        message = message.replace(foreign, "…")
    parts = [part.strip(" :") for part in message.split("…")]
    return [part for part in parts if part.strip(";.()")]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_exists(message: str) -> None:
    written = re.sub(r"%\.?\d*[a-z]", "\0", texts())
    assert not [piece for piece in pieces(message) if piece not in written]


def test_there_are_messages() -> None:
    assert len(MESSAGES) >= 25
