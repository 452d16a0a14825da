"""`drumlin produce`: write lines, JSON lines or a columnar file to a topic."""

from __future__ import annotations

import enum
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.completion import complete_topic
from drumlin.cli.records.pieces import PieceTooLarge, pieces, standard_input
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.terminal.places import TIMES, parse_time
from drumlin.cli.terminal.record_text import parse_json_line
from drumlin.client.errors import ClientError
from drumlin.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.values.json_encoding import Encode

EXAMPLES: Final = examples(
    "echo hello | drumlin produce greetings",
    "drumlin produce users --key-separator : --null '' < users.txt",
    "drumlin consume a --json | drumlin produce b --json-lines",
    "drumlin produce orders --transactional-id import-7 < orders.txt",
    "drumlin produce orders --registry http://registry:8081 --value-schema order.avsc < lines",
    "drumlin produce flights flights.parquet --key tailnum --compression zstd",
)
_COLUMNAR: Final = frozenset({".parquet", ".arrow", ".feather", ".csv"})
_STDIN: Final = Path("-")
_PROGRESS_EVERY: Final = 1000


class Compression(enum.StrEnum):
    """The codec of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(enum.StrEnum):
    """The replicas that must have a record before it counts as written."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class _Lines:
    """The rules by which a line becomes a record."""

    is_json: bool
    key_separator: bytes | None
    null: bytes | None
    headers: tuple[tuple[str, bytes], ...]  # names may be repeated
    key: bytes | None = None
    timestamp_ms: int | None = None
    encode_key: Encode | None = None
    encode: Encode | None = None

    def parse(self, line: bytes) -> dict[str, Any]:
        record = self._record(line)
        for part, encode in (("key", self.encode_key), ("value", self.encode)):
            if encode is not None and record[part] is not None:
                record[part] = encode(record[part])
        return record

    def _record(self, line: bytes) -> dict[str, Any]:
        if self.is_json:
            record = parse_json_line(line)
            record["headers"] += self.headers
            return record
        key, value = self.key, line
        if self.key_separator is not None:
            key, separator, value = line.partition(self.key_separator)
            if not separator:
                raise ValueError(f"no key separator {self.key_separator.decode()!r}")
        record = {
            "key": self._nullable(key),
            "value": self._nullable(value),
            "headers": self.headers,
        }
        return record if self.timestamp_ms is None else record | {"timestamp": self.timestamp_ms}

    def _nullable(self, data: bytes | None) -> bytes | None:
        return None if data == self.null else data


TransactionalId = Annotated[
    str | None,
    Option(
        "--transactional-id",
        metavar="ID",
        help="Write all in one transaction of this id: all records, or none.",
    ),
]


def produce(
    topic: Annotated[str, Argument("TOPIC", help="A topic.", complete=complete_topic)],
    file: Annotated[
        Path,
        Argument("FILE", help="Lines, or a .parquet, .arrow or .csv file; - is standard input."),
    ] = _STDIN,
    key_separator: Annotated[
        str | None,
        Option(
            "--key-separator",
            "-k",
            metavar="TEXT",
            help="The separator between key and value in a line.",
        ),
    ] = None,
    constant_key: Annotated[
        str | None, Option("--constant-key", metavar="TEXT", help="The key of every line.")
    ] = None,
    delimiter: Annotated[
        str, Option("--delimiter", "-D", metavar="TEXT", help="The separator between records.")
    ] = r"\n",
    timestamp: Annotated[
        str | None,
        Option(
            "--timestamp",
            metavar="TIME",
            help=f"The timestamp of all lines: {TIMES}.",
        ),
    ] = None,
    json_lines: Annotated[
        bool,
        Option("--json-lines", "-j", help="Lines are records as `consume --json` writes."),
    ] = False,
    null: Annotated[
        str | None, Option("--null", metavar="TEXT", help="A key or value that means null.")
    ] = None,
    header: Annotated[
        list[str] | None,
        Option(
            "--header", "-H", metavar="NAME=VALUE", help="A header for every record. Repeatable."
        ),
    ] = None,
    partition: Annotated[
        int | None, Option("--partition", "-p", help="Write to this partition only.")
    ] = None,
    key: Annotated[
        str | None, Option("--key", metavar="COLUMN", help="The column of a file that is the key.")
    ] = None,
    value: Annotated[
        str | None,
        Option(
            "--value",
            metavar="COLUMN",
            help="The column of a file that is the value; default: 'value', else the row as JSON.",
        ),
    ] = None,
    compression: Annotated[
        Compression, Option("--compression", "-z", help="The codec of batches.")
    ] = Compression.NONE,
    acks: Annotated[Acks, Option("--acks", help="Which replicas to wait for.")] = Acks.ALL,
    transactional_id: TransactionalId = None,
    registry: Annotated[
        str | None,
        Option("--registry", metavar="URL", help="A schema registry. Its login is in --config."),
    ] = None,
    value_schema: Annotated[
        str | None,
        Option(
            "--value-schema",
            metavar="SUBJECT|FILE",
            help="Lines are JSON, and are written as Avro, Protobuf or checked JSON: by the latest "
            "schema of a subject of --registry, or by a .avsc, .proto or .json file, which is "
            "registered as TOPIC-value.",
        ),
    ] = None,
    key_schema: Annotated[
        str | None,
        Option(
            "--key-schema",
            metavar="SUBJECT|FILE",
            help="The same for keys, which are JSON; a file is registered as TOPIC-key.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Write records to a topic; one for each line, or for each row of a file."""
    from drumlin import lowlevel
    from drumlin.client.client import connect

    if constant_key is not None and key_separator is not None:
        raise click.BadParameter("give either --key-separator or --constant-key")
    if transactional_id is not None and acks is not Acks.ALL:
        raise click.BadParameter("--transactional-id needs --acks all")
    _check_exists(file)
    has_schema = value_schema is not None or key_schema is not None
    if (registry is not None) != has_schema:
        raise click.BadParameter("--registry and --value-schema (or --key-schema) need each other")
    if has_schema and file.suffix in _COLUMNAR:
        raise click.BadParameter("schemas are for lines, not for columnar files")
    lines = _Lines(
        json_lines,
        None if key_separator is None else _unescaped("--key-separator", key_separator),
        _encoded(null),
        tuple(map(_header, header or ())),
        _encoded(constant_key),
        None if timestamp is None else _timestamp_ms(timestamp),
        _encoder(registry, command_config, key_schema, topic, "key"),
        _encoder(registry, command_config, value_schema, topic, "value"),
    )
    ends = _unescaped("--delimiter", delimiter)
    delivery = {"compression": str(compression), "acks": str(acks)}
    started = time.perf_counter()
    with connect(bootstrap, **settings_of(command_config)) as client, ExitStack() as stack:
        missing = lowlevel.look_up_topics(client, [topic]).refused
        target = stack.enter_context(_target(client, transactional_id))
        if file.suffix in _COLUMNAR:
            records = _produce_rows(target, topic, file, key, value, partition, delivery)
        else:
            records = _produce_lines(target, topic, file, ends, lines, partition, delivery)
    if records and missing.get(topic) is ErrorCode.unknown_topic_or_partition:
        output.note(f"created topic {topic}")
    _report(topic, records, time.perf_counter() - started, as_json)


def _encoder(
    registry: str | None, command_config: Path | None, schema: str | None, topic: str, part: str
) -> Encode | None:
    if registry is None or schema is None:
        return None
    from drumlin.cli.reach.schema_registry import registry_of
    from drumlin.cli.records.schema_encoding import encoder_by

    return encoder_by(registry_of(registry, command_config), schema, topic, part)


def _check_exists(file: Path) -> None:
    if file != _STDIN and not file.exists():
        raise output.Failure(f"{file}: no such file")
    if file.is_dir():
        raise output.Failure(f"{file}: a folder, not a file")


@contextmanager
def _target(client: Client, transactional_id: str | None) -> Iterator[Client | Transaction]:
    """The client to write with, or a transaction: committed at the end, or aborted on an error."""
    if transactional_id is None:
        yield client
        return
    try:
        with client.transaction(transactional_id) as transaction:
            yield transaction
    except output.Failure as error:
        raise output.Failure(f"{error}, and aborted with the transaction") from error


def _timestamp_ms(text: str) -> int:
    return round(parse_time(text).timestamp() * 1000)


def _report(topic: str, records: int, seconds: float, as_json: bool) -> None:
    if as_json:
        output.show_json({"topic": topic, "records": records, "seconds": round(seconds, 3)})
    else:
        rate = f" ({records / seconds:,.0f}/s)" if records > max(seconds, 1) else ""
        output.note(f"{output.counted(records, 'record')} to {topic}{rate}")


@contextmanager
def _counted(written: Callable[[], int]) -> Iterator[None]:
    """Add the number of written records to errors: repeating the command writes them twice."""
    try:
        yield
    except KeyboardInterrupt:
        output.note(_written(written()))
        raise
    except (output.Failure, ClientError, OSError, ValueError) as error:
        count = written() + getattr(error, "acknowledged", 0)
        raise output.Failure(f"{error}; {_written(count)}") from error


def _written(count: int) -> str:
    return f"{output.counted(count, 'record')} {'was' if count == 1 else 'were'} written"


def _encoded(text: str | None) -> bytes | None:
    """The bytes that were typed; they need not be UTF-8."""
    return None if text is None else os.fsencode(text)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"--header: {text!r} is not NAME=VALUE")
    return name, os.fsencode(value)


def _unescaped(option: str, separator: str) -> bytes:
    for escape, character in ((r"\t", "\t"), (r"\n", "\n"), (r"\0", "\0")):
        separator = separator.replace(escape, character)
    if not separator:
        raise click.BadParameter(f"{option}: empty")
    return os.fsencode(separator)


def _produce_lines(
    target: Client | Transaction,
    topic: str,
    file: Path,
    delimiter: bytes,
    lines: _Lines,
    partition: int | None,
    delivery: dict[str, Any],
) -> int:
    number = 0
    where = "standard input" if file == _STDIN else file
    with ExitStack() as stack:
        source = standard_input() if file == _STDIN else stack.enter_context(file.open("rb"))
        total = None if file == _STDIN else file.stat().st_size
        progress = stack.enter_context(output.progress(enabled=not sys.stdin.isatty()))
        task = progress.add_task(topic, total=total, done="")
        writer = target.writer(topic, **delivery)
        stack.enter_context(_counted(lambda: writer.acknowledged))
        stack.enter_context(writer)
        pending_bytes = 0
        for number, line in _numbered(pieces(source, delimiter), where):
            try:
                record = lines.parse(line)
            except (ValueError, KeyError, TypeError) as error:
                raise output.Failure(f"{where}, line {number}: {error}") from None
            writer.send(**record, partition=partition)
            pending_bytes += len(line) + len(delimiter)
            if number % _PROGRESS_EVERY == 0:
                progress.update(task, advance=pending_bytes, done=f"{number:,} records")
                pending_bytes = 0
    return number


def _numbered(lines: Iterator[bytes], where: str | Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            yield number, line
    except PieceTooLarge as error:
        raise output.Failure(f"{where}, line {number + 1}: {error}") from None


def _produce_rows(
    target: Client | Transaction,
    topic: str,
    file: Path,
    key: str | None,
    value: str | None,
    partition: int | None,
    delivery: dict[str, Any],
) -> int:
    import pyarrow as pa

    from drumlin.cli.terminal.record_files import as_records, read_batches

    rows, batches = read_batches(file)
    done = 0
    if partition is not None:
        delivery["partition"] = lambda batch, _: pa.array([partition] * batch.num_rows, pa.int32())
    with output.progress() as progress, _counted(lambda: done):
        task = progress.add_task(topic, total=rows, done="")
        for batch in batches:
            target.append(as_records(batch, key, value), topic, **delivery)
            done += batch.num_rows
            progress.update(task, advance=batch.num_rows, done=f"{done:,} records")
    return done


produce_command: Final = command(produce, epilog=EXAMPLES)
