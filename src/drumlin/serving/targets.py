"""Opens the store that a URL names."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from drumlin.serving.target import Target

_EXPECTED: Final = (
    "expected sqlite:///PATH[?table=NAME], postgresql://USER@HOST/DATABASE[?table=NAME] or "
    "redis://HOST:PORT/NUMBER[?prefix=TEXT]"
)
#: The environment variable for a password, which other users should not see in a URL.
VARIABLE: Final = "DRUMLIN_STORE_PASSWORD"


def without_password(url: str) -> str:
    """The URL without its password, for messages."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:...@{host}"))


def open_target(url: str, topic: str, group: str, decode: str | None) -> Target:
    """The store that a URL names.

    Raises:
        ValueError: the URL names no store, or has an unknown option.
        TargetRefused: the table in the store is not one that this group keeps for this topic.
        OSError: the store cannot be reached.
    """
    scheme, host, path, query, fragment = urlsplit(url)
    options = dict(parse_qsl(query, keep_blank_values=True))
    kept = f"topic {topic!r} by group {group!r}" + (f" as {decode}" if decode else "")
    if scheme == "sqlite":
        name = options.pop("table", topic)
        if host or fragment or options or len(path) < 2 or not name:
            raise ValueError(f"{url!r}: {_EXPECTED}")
        from drumlin.serving.sqlite_target import SqliteTarget

        return SqliteTarget(unquote(path[1:]), name, topic, kept)
    if scheme in ("postgresql", "postgres"):
        name, schema = options.pop("table", topic), options.pop("schema", None)
        if fragment or not name or schema == "":
            raise ValueError(f"{without_password(url)!r}: {_EXPECTED}")
        from drumlin.serving.postgres_target import PostgresTarget

        where = urlunsplit((scheme, host, path, urlencode(options, quote_via=quote), ""))
        return PostgresTarget(
            where, os.environ.get(VARIABLE), schema, name, topic, kept, is_text=decode is not None
        )
    if scheme in ("redis", "rediss"):
        prefix = options.pop("prefix", f"{topic}:")
        if not host or fragment or options:
            raise ValueError(f"{without_password(url)!r}: {_EXPECTED}")
        from drumlin.serving.redis_target import RedisTarget

        where = urlunsplit((scheme, host, path, "", ""))
        return RedisTarget(where, os.environ.get(VARIABLE), prefix, kept)
    raise ValueError(f"a store of kind {scheme!r}: {_EXPECTED}")
