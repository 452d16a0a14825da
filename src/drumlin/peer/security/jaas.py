"""The syntax of `sasl.jaas.config`, as in Java: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";

No error message shows any part of the text, as it contains passwords.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from drumlin.peer.security.settings import SecurityOptionError

_PART: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/                                  # nothing
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[=;])
    |(?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


class LoginModule(NamedTuple):
    """A login module; `name` is the class without its package, which differs in shaded jars."""

    name: str
    options: dict[str, str]


class _Part(NamedTuple):
    kind: str
    text: str


def parse_jaas(text: str) -> LoginModule:
    """The one login module of a JAAS configuration.

    Raises:
        SecurityOptionError: the text is malformed; the message does not show it.
    """
    parts = _parts(text)
    if not parts or parts[0].kind == "mark":
        raise SecurityOptionError("there is no login module in it")
    name = parts[0].text.rpartition(".")[2]
    if not name.endswith("LoginModule") or not name.isidentifier():
        raise SecurityOptionError("it does not begin with the class of a login module")
    if len(parts) < 2 or parts[1].text.lower() not in _FLAGS:
        raise SecurityOptionError(f"{name} must be followed by 'required'")
    options: dict[str, str] = {}
    at = 2
    while at < len(parts) and parts[at] != _Part("mark", ";"):
        key, equals, value = (*parts[at : at + 3], *[_Part("", "")] * 3)[:3]
        number = f"{name}: option {len(options) + 1}"  # its name may be a part of a password
        if key.kind != "word" or equals != _Part("mark", "=") or value.kind in {"", "mark"}:
            raise SecurityOptionError(f'{number} is not written as name="value"')
        if key.text in options:
            raise SecurityOptionError(f"{number} repeats the name of an earlier one")
        options[key.text] = value.text
        at += 3
    if at == len(parts):
        raise SecurityOptionError(f"{name}: the semicolon at the end is missing")
    if at + 1 < len(parts):
        raise SecurityOptionError("there is more after the first login module; one is allowed")
    return LoginModule(name, options)


def _parts(text: str) -> list[_Part]:
    parts = []
    position = 0
    while position < len(text):
        matched = _PART.match(text, position)
        if matched is None:
            raise SecurityOptionError("a quote is not closed in its line")
        position = matched.end()
        kind, part = matched.lastgroup, matched.group()
        if kind == "quoted":
            part = _ESCAPE.sub(_unescaped, part[1:-1])
        if kind is not None:
            parts.append(_Part(kind, part))
    return parts


def _unescaped(escape: re.Match[str]) -> str:
    character = escape[1]
    if character[0] in "01234567":
        return chr(int(character, 8))
    return _CONTROLS.get(character, character)
