"""Options that a program gives to a function, as Spark would pass them to a data source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def as_text(topic: str, bootstrap_servers: str, options: Mapping[str, object]) -> dict[str, str]:
    """The options as text, with names in lower case; `topic` and brokers among them."""
    given = {"subscribe": topic, "kafka.bootstrap.servers": bootstrap_servers, **options}
    return {name.lower(): _text(value) for name, value in given.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
