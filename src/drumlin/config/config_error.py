"""Errors in a configuration, each with a message of one line."""

from __future__ import annotations


class ConfigError(ValueError):
    """A key or a value that is refused.

    The text is for an operator that starts a broker, and for clients that change a configuration.
    It has the key, the value, and the allowed values.
    """

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        shown = key if value is None else f'{key} = "{value}"'
        super().__init__(f"{shown}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class UnknownKey(ConfigError):
    """A key that Apache Kafka does not know either."""

    def __init__(self, key: str, value: str | None, hint: str | None) -> None:
        said = f"; {hint}" if hint else ""
        super().__init__(key, value, f"no such configuration key{said}")
