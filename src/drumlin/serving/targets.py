"""Opens the store that a URL names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from drumlin.serving.folder_urls import folder_of
from drumlin.serving.target import FORMAT, Target

_EXPECTED: Final = (
    "expected sqlite:///PATH[?table=NAME], postgresql://USER@HOST/DATABASE[?table=NAME], "
    "redis://HOST:PORT/NUMBER[?prefix=TEXT], opensearch+https://USER@HOST:PORT[?index=NAME] or "
    "parquet:FOLDER[?table=NAME]"
)
#: The environment variable for a password, which other users should not see in a URL.
VARIABLE: Final = "DRUMLIN_STORE_PASSWORD"
#: The placeholder for the topic's name in the name of a table or in a prefix.
TOPIC: Final = "{topic}"

#: Parameters of libpq that are secret.
_SECRETS: Final = frozenset({"password", "sslpassword"})
_BUCKETS_MAX: Final = 1024
#: Opens a target. Arguments: the table's name or the prefix, the topic, and the text for `kept`.
_Open = Callable[[str, str, str], Target]


class Store:
    """A store, with a target for each topic."""

    def __init__(
        self,
        names: str,
        kept_as: str,
        open_target: _Open,
        close: Callable[[], object] = lambda: None,
        rows_at_a_time: int | None = None,
    ) -> None:
        """`names`: the name of the targets, in which `{topic}` stands for the topic's name."""
        self.names = names
        #: The most records to apply at once; None: as many as are fetched.
        self.rows_at_a_time = rows_at_a_time
        self._kept_as = kept_as
        self._open = open_target
        self._close = close
        self._targets: list[Target] = []

    def target(self, topic: str) -> Target:
        """Open the target of a topic.

        Raises:
            TargetRefused: the table or prefix does not belong to this group and topic.
            OSError: the store cannot be reached.
        """
        kept = f"topic {topic!r} {self._kept_as}"
        target = self._open(self.names.replace(TOPIC, topic), topic, kept)
        self._targets.append(target)
        return target

    def close(self) -> None:
        """Close the store and its targets."""
        for each in self._targets:
            each.close()
        self._close()


def without_password(url: str) -> str:
    """The URL without its password, for messages."""
    parts = urlsplit(url)
    if parts.password is not None:
        host = parts.netloc.rpartition("@")[2]
        url = url.replace(parts.netloc, f"{parts.username or ''}:...@{host}", 1)
    return re.sub(r"(password=)[^&]*", r"\1...", url)


def open_store(url: str, group: str, decode: str | None, *, only_looks: bool = False) -> Store:
    """The store that a URL names. With `only_looks`, targets only read positions.

    Raises:
        ValueError: the URL names no store, or has an unknown option.
        ModuleNotFoundError: the store's client is not installed; the message says what to do.
        OSError: the store cannot be reached.
    """
    try:
        return _store(url, group, decode, only_looks=only_looks)
    except _NotExpected:
        raise ValueError(f"{without_password(url)!r}: {_EXPECTED}") from None


def _store(url: str, group: str, decode: str | None, *, only_looks: bool) -> Store:
    parts = urlsplit(url)
    kept_as = f"by group {group!r}" + (f"{FORMAT}{decode}" if decode else "")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check(not parts.fragment)
    if parts.scheme == "sqlite":
        _check(url.partition(":")[2].startswith("///"))
        return _sqlite(parts, options, kept_as, only_looks=only_looks)
    if parts.scheme in ("postgresql", "postgres"):
        is_text = decode is not None
        return _postgres(parts, options, kept_as, is_text=is_text, only_looks=only_looks)
    if parts.scheme in ("redis", "rediss"):
        return _redis(parts, options, kept_as)
    if parts.scheme == "parquet":
        return _parquet(parts, options, kept_as, is_text=decode is not None, only_looks=only_looks)
    if parts.scheme in ("opensearch+https", "opensearch+http"):
        return _opensearch(parts, options, kept_as, only_looks=only_looks)
    what = f"a store of kind {parts.scheme!r}" if parts.scheme else repr(without_password(url))
    raise ValueError(f"{what}: {_EXPECTED}")


def _sqlite(
    parts: SplitResult, options: dict[str, str], kept_as: str, *, only_looks: bool
) -> Store:
    from drumlin.serving.sqlite_target import SqliteTarget

    names = options.pop("table", TOPIC)
    path = unquote(parts.path[1:])
    _check(not parts.netloc and not options and path and "\0" not in path and names)

    def open_target(name: str, topic: str, kept: str) -> Target:
        return SqliteTarget(path, name, topic, kept, only_looks=only_looks)

    return Store(names, kept_as, open_target)


def _postgres(
    parts: SplitResult,
    options: dict[str, str],
    kept_as: str,
    *,
    is_text: bool,
    only_looks: bool,
) -> Store:
    from drumlin.serving.postgres.connection import PostgresConnection
    from drumlin.serving.postgres.target import PostgresTarget

    names, schema = options.pop("table", TOPIC), options.pop("schema", None)
    _check(names and schema != "")
    if not _SECRETS.isdisjoint(options):
        raise ValueError(f"a password in a URL's parameter: say it in {VARIABLE}")
    # Without a host the two slashes have to stay.
    where = f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(options, quote_via=quote)}"
    connection = PostgresConnection(where, os.environ.get(VARIABLE))

    def open_target(name: str, topic: str, kept: str) -> Target:
        return PostgresTarget(
            connection, schema, name, topic, kept, is_text=is_text, only_looks=only_looks
        )

    return Store(names, kept_as, open_target, connection.close)


def _redis(parts: SplitResult, options: dict[str, str], kept_as: str) -> Store:
    from drumlin.serving.redis.target import ROWS_AT_A_TIME, RedisTarget

    names = options.pop("prefix", f"{TOPIC}:")
    number = parts.path.removeprefix("/")
    _check(_has_server(parts) and not options and (not number or number.isdecimal()))
    where = urlunsplit(parts._replace(query=""))

    def open_target(prefix: str, _: str, kept: str) -> Target:
        return RedisTarget(where, os.environ.get(VARIABLE), prefix, kept)

    return Store(names, kept_as, open_target, rows_at_a_time=ROWS_AT_A_TIME)


def _opensearch(
    parts: SplitResult, options: dict[str, str], kept_as: str, *, only_looks: bool
) -> Store:
    from drumlin.serving.opensearch.connection import OpenSearchConnection
    from drumlin.serving.opensearch.target import OpenSearchTarget

    names, ca = options.pop("index", TOPIC), options.pop("ca", None)
    _check(_has_server(parts) and names and parts.path in ("", "/") and not options)
    where = parts._replace(scheme=parts.scheme.partition("+")[2])
    connection = OpenSearchConnection(where, os.environ.get(VARIABLE), ca)

    def open_target(name: str, topic: str, kept: str) -> Target:
        return OpenSearchTarget(connection, name, topic, kept, only_looks=only_looks)

    return Store(names, kept_as, open_target, connection.close)


def _parquet(
    parts: SplitResult,
    options: dict[str, str],
    kept_as: str,
    *,
    is_text: bool,
    only_looks: bool,
) -> Store:
    from drumlin.serving.parquet.target import ParquetTarget

    names = options.pop("table", TOPIC)
    numbers = {"buckets": 16, "every": 60, "keep": 600}
    for each in numbers.keys() & options.keys():
        given = options.pop(each)
        _check(given.isdecimal())
        numbers[each] = int(given)
    folder = folder_of(parts)
    if folder is None or options or "/" in names or names in ("", ".", ".."):
        raise _NotExpected
    _check(1 <= numbers["buckets"] <= _BUCKETS_MAX)

    def open_target(name: str, _: str, kept: str) -> Target:
        return ParquetTarget(
            folder / name,
            kept,
            is_text=is_text,
            buckets=numbers["buckets"],
            every_s=numbers["every"],
            keep_s=numbers["keep"],
            only_looks=only_looks,
        )

    return Store(names, kept_as, open_target)


def _has_server(parts: SplitResult) -> bool:
    """Whether the URL has a host and a valid port."""
    try:
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class _NotExpected(ValueError):
    """The URL does not have the form of any store."""


def _check(is_right: object) -> None:
    if not is_right:
        raise _NotExpected
