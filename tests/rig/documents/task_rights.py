"""The rights that docs/security.md lists for each task, as ACLs."""

from __future__ import annotations

import re
from pathlib import Path

from rig.servers.rights import (
    CREATE,
    DESCRIBE_CONFIGS,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
)

_DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
_OPERATIONS = {
    "read": READ,
    "write": WRITE,
    "create": CREATE,
    "describe-configs": DESCRIBE_CONFIGS,
}
_KINDS = {"topic": TOPIC, "group": GROUP, "transactional-id": TRANSACTIONAL_ID}
_WORDS = {READ: "READ", WRITE: "WRITE", CREATE: "CREATE", DESCRIBE_CONFIGS: "DESCRIBE_CONFIGS"}


def listed(task: str) -> list[Right]:
    """The rights of the one task that begins so; for Apache Kafka, where it differs."""
    (row,) = re.findall(
        rf"^\| {re.escape(task)}[^|]* \| (.+) \|$", _DOCUMENT.read_text(), re.MULTILINE
    )
    found = []
    for each in re.findall(r"`([^`]+)`", row):
        operation, kind, name = each.split(" ")
        pattern = PREFIXED if name.endswith("*") else LITERAL
        found.append(Right(_KINDS[kind], name.removesuffix("*"), _OPERATIONS[operation], pattern))
    return found


def placed(right: Right, names: dict[str, str]) -> Right:
    """The right with the names of a test in place of the document's."""
    word = re.compile("|".join(sorted(names, key=len, reverse=True)))
    return right._replace(name=word.sub(lambda found: names[found[0]], right.name))


def naming(right: Right) -> str:
    """A pattern for a sentence that names the right. Its `DESCRIBE` is asked for first."""
    kind = next(name for name, each in _KINDS.items() if each == right.kind).replace("-", " ")
    operation = rf"(?=[^(]*\b{_WORDS[right.operation]}\b)"
    return rf"(?s){re.escape(right.name)}.* takes {operation}[^(]*\b{kind}\b"
