"""Creates the landing target that a URL names."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from drumlin.serving.folder_urls import folder_of
from drumlin.serving.targets import without_password
from drumlin.spark.landing.rows.mode import TOPIC, Mode, Period
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.target import Target

#: The second scheme is Spark's name for it.
_S3: Final = ("s3", "s3a")
_BY_ENVIRONMENT: Final = S3Account()

_EXPECTED: Final = (
    "expected parquet:FOLDER, hdfs://HOST:PORT/FOLDER or s3://BUCKET/FOLDER, which append, "
    "delta:TABLE, iceberg:CATALOG/NAMESPACE.TABLE[?buckets=N] or postgresql://USER@HOST/DATABASE[?table=NAME]"
)


def open_target(
    url: str,
    topic: str,
    mode: Mode,
    period: Period | None = None,
    account: S3Account = _BY_ENVIRONMENT,
    *,
    only_looks: bool = False,
) -> Target:
    """
    Args:
        period: the period by which rows are partitioned.
        account: the account for targets in S3.
        only_looks: whether only the position is read, while another run may land.

    Raises:
        ValueError: the URL names no target, or one that does not support this mode or periods.
        LandingRefused: there are no credentials for S3.
        ModuleNotFoundError: a package is missing; the message names it.
    """
    url_of_topic = url.replace(TOPIC, topic)
    kind, _, rest = url_of_topic.partition(":")
    if period is not None and mode == "upsert":
        raise ValueError(
            f"partition_by={period!r}: only appended rows are kept apart by time, and {topic!r} is "
            "to be upserted: the row of a key would move with each new value"
        )
    if kind == "delta" and rest:
        try:
            from drumlin.spark.landing.targets.delta import Table
        except ModuleNotFoundError as error:
            raise _needs("deltalake", error) from None
        if not urlsplit(rest).scheme:
            return Table(_folder(url_of_topic), mode, period)
        if not is_s3(rest):
            return Table(rest, mode, period)
        try:
            from drumlin.spark.landing.targets.s3_lake.session import options_for_delta
        except ModuleNotFoundError as error:
            raise _needs("boto3", error) from None
        return Table(rest, mode, period, options_for_delta(rest, account))
    if kind in ("hdfs", *_S3) or (kind == "parquet" and rest):
        path = rest if kind == "parquet" else f"{kind}:{rest}"
        if mode != "append":
            instead = path if is_s3(path) else "TABLE"
            raise ValueError(
                f"{without_password(url)!r}: files are appended to only, and {topic!r} is to be "
                "upserted: land it in mode 'append', every record as a row, or into "
                f"delta:{without_password(instead)}"
            )
        return _lake(url_of_topic, path, period, account)
    if kind == "iceberg":
        return _iceberg(url, topic, mode, period)
    if kind in ("postgresql", "postgres"):
        if period is not None:
            raise ValueError(
                f"partition_by={period!r}: a table of PostgreSQL is not partitioned by landings: "
                "an index on timestamp_ms finds the rows of a day"
            )
        return _postgres(url, topic, mode, only_looks=only_looks)
    raise ValueError(f"{without_password(url)!r}: {_EXPECTED}")


def is_s3(path: str) -> bool:
    """Whether this is the URL of something in S3."""
    return path.partition(":")[0] in _S3


def _lake(url: str, path: str, period: Period | None, account: S3Account) -> Target:
    parts = urlsplit(path)
    if is_s3(path):
        if not parts.netloc or "@" in parts.netloc or not parts.path.strip("/") or parts.query:
            raise ValueError(
                f"{without_password(path)!r}: expected s3://BUCKET/FOLDER; a login is in AWS's "
                "environment or files, or in the file of --properties"
            )
        try:
            from drumlin.spark.landing.targets.s3_lake.lake import S3Lake
        except ModuleNotFoundError as error:
            raise _needs(error.name or "obstore", error) from None
        return S3Lake(f"s3://{parts.netloc}{parts.path}", account, period)
    if parts.scheme not in ("", "file", "hdfs"):
        raise ValueError(
            f"{without_password(path)!r}: {parts.scheme} cannot rename a folder at once: take "
            f"delta:{without_password(path)}"
        )
    if parts.scheme == "hdfs":
        _check_hdfs(path, parts)
        try:
            import hdfs_native  # noqa: F401
        except ModuleNotFoundError as error:
            raise _needs("hdfs-native", error) from None
    else:
        path = _folder(url)
    from drumlin.spark.landing.targets.parquet import Lake

    return Lake(path, period)


def _check_hdfs(url: str, parts: SplitResult) -> None:
    """
    Raises:
        ValueError: it names no folder in HDFS.
    """
    try:
        is_place = parts.port is None or bool(parts.hostname)
    except ValueError:  # the port is no number
        is_place = False
    if (
        not is_place
        or not url.startswith("hdfs://")
        or not parts.path.strip("/")
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"{without_password(url)!r}: expected hdfs://HOST:PORT/FOLDER")


def _folder(url: str) -> str:
    parts = urlsplit(url)
    folder = folder_of(parts)
    if folder is None or parts.query or parts.fragment:
        raise ValueError(f"{url!r}: expected {parts.scheme}:FOLDER or {parts.scheme}:///FOLDER")
    return str(folder)


def _postgres(url: str, topic: str, mode: Mode, *, only_looks: bool) -> Target:
    where, _, query = url.partition("?")
    where = where.replace(TOPIC, topic)
    options = dict(parse_qsl(query, keep_blank_values=True))
    # Dots in a topic's name do not separate schema and table.
    table = [each.replace(TOPIC, topic) for each in options.get("table", TOPIC).split(".")]
    if not all(table):
        raise ValueError(f"{without_password(url)!r}: no name of a table: {options['table']!r}")
    options.pop("table", None)
    try:
        from drumlin.spark.landing.targets.postgresql import PostgresTable
    except ModuleNotFoundError as error:
        raise _needs("'psycopg[binary]'", error) from None
    if options:
        where = f"{where}?{urlencode(options, quote_via=quote)}"
    shown = without_password(where.partition("?")[0])
    return PostgresTable(where, table, mode, shown, only_looks=only_looks)


def _iceberg(url: str, topic: str, mode: Mode, period: Period | None) -> Target:
    place, _, query = url.removeprefix("iceberg:").partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    buckets = options.pop("buckets", None)
    catalog, _, table = place.partition("/")
    # Dots in a topic's name do not separate namespaces.
    name = [each.replace(TOPIC, topic) for each in table.split(".")]
    if not catalog or len(name) < 2 or not all(name) or options:
        raise ValueError(f"{url!r}: expected iceberg:CATALOG/NAMESPACE.TABLE[?buckets=N]")
    if buckets is not None and not (buckets.isdecimal() and int(buckets) > 0):
        raise ValueError(f"{url!r}: buckets: expected a positive number, not {buckets!r}")
    try:
        from drumlin.spark.landing.targets.iceberg import BUCKETS, IcebergTable
    except ModuleNotFoundError as error:
        raise _needs("'pyiceberg[pyarrow]'", error) from None
    return IcebergTable(catalog, name, mode, int(buckets or BUCKETS), period)


def check_places(url: str, topics: list[str]) -> None:
    """
    Raises:
        ValueError: several topics would land in the same place.
    """
    if not topics:
        raise ValueError("no topics are named")
    has_place_for_each = TOPIC in url or (
        url.startswith("postgres") and "table=" not in urlsplit(url).query
    )
    if len(topics) > 1 and not has_place_for_each:
        raise ValueError(
            f"{without_password(url)!r} is one place, and each topic has one of its own: put "
            f"{TOPIC} into it"
        )


def _needs(package: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    text = f"this target needs the package {package}: pip install {package}"
    return ModuleNotFoundError(text, name=error.name)
