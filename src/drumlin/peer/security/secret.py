"""A text that must not be shown by accident: a password, a key, a token.

It is displayed as `***` wherever it is printed, logged or formatted. Only `reveal` returns the
text, to the code that sends it.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = "***"


class Secret:
    """A secret text, which is compared and pickled by its text, but never shows it."""

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text._text if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def hidden_in(self, message: str) -> str:
        """`message` with the text masked, in case a peer has repeated the text there."""
        return message.replace(self._text, _MASK) if self._text else message

    def __repr__(self) -> str:
        return _MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
