"""Properties files as java.util.Properties reads them: the expectations are what it gave."""

from __future__ import annotations

import pytest

from drumlin.config.properties import decode_properties, parse_properties


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
        ("face=\\ud83d\\ude00", {"face": "😀"}),
    ],
)
def test_syntax(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("escape", ["\\u12", "\\uzzzz", "\\u0x1f", "\\u 1f "])
def test_broken_escapes(escape: str) -> None:
    with pytest.raises(ValueError, match=r"^line 3: \\u without four hexadecimal digits$"):
        parse_properties(f"# comment\n\npassword=secret{escape}")


def test_a_file_is_utf_8_with_or_without_a_byte_order_mark() -> None:
    content = "security.protocol=SSL\r\nä=ü".encode()
    wanted = {"security.protocol": "SSL", "ä": "ü"}
    assert decode_properties(content) == decode_properties(b"\xef\xbb\xbf" + content) == wanted
    with pytest.raises(ValueError, match=r"^line 2: not UTF-8"):
        decode_properties(b"a=b\rpassword=secret\xe4\xe4")
