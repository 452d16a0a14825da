"""Properties files as java.util.Properties reads them: the expectations are what it gave."""

from __future__ import annotations

import pytest

from drumlin.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b \\\n   c\n", {"a": "b c"}),
        ("! x\n#y\n  # z\n", {}),
        ("k\\ ey:v\\u0041\\tz", {"k ey": "vA\tz"}),
        ("only", {"only": ""}),
        ("x==3", {"x": "=3"}),
        ("  lead : trail  ", {"lead": "trail  "}),
        ("bs=a\\\\b\\q", {"bs": "a\\bq"}),
        ("e=\\\n#not comment", {"e": "#not comment"}),
        ("q\\=r=1", {"q=r": "1"}),
        ("t\tab", {"t": "ab"}),
        ("\\\n z=1", {"z": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\\", {"a": "b\\"}),
        ("a=b\\", {"a": "b"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("ä=ü", {"ä": "ü"}),
    ],
)
def test_syntax(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz"])
def test_broken_escapes(text: str) -> None:
    with pytest.raises(ValueError, match=r"u|invalid literal"):
        parse_properties(text)
