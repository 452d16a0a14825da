"""Writes the tables in docs/ that say what the code says: `.venv/bin/python script/doc_tables.py`.

Each stands between `<!-- table: NAME -->` and `<!-- end -->`; all else in a document is left
alone. `tests/test_docs.py` fails while a table is not what this script would write.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from drumlin.broker.apis.served import SERVED
from drumlin.cli.app import app
from drumlin.client.client import Client, connect
from drumlin.config.broker import OWN_DEFAULTS
from drumlin.config.keys import Key, broker_keys, group_keys, topic_keys
from drumlin.config.synonyms import BROKER_SYNONYMS
from drumlin.spark.options.option import Direction, Refusal
from drumlin.spark.options.option_names import ROWS
from drumlin.spark.options.sink_rows import REFUSED_BY_SINK
from drumlin.spark.options.source_rows import REFUSED_BY_SOURCE
from drumlin.wire.messages import API_KEYS

DOCS: Final = Path(__file__).parents[1] / "docs"
#: What `script/assure ecosystem` has seen: test, program, version, job, what came of it, and more.
PROGRAMS: Final = DOCS.parent / "tests" / "ecosystem" / "results.tsv"

_TABLE: Final = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_LONG_MAX: Final = str(2**63 - 1)
_INT_MAX: Final = str(2**31 - 1)

#: What a broker of Apache Kafka 4.3 serves and this one does not, by what it belongs to.
NOT_SERVED: Final[dict[str, tuple[str, ...]]] = {
    "streams groups": ("streams_group_heartbeat", "streams_group_describe"),
    "KRaft (not here)": ("add_raft_voter", "remove_raft_voter"),
}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def api_name(name: str) -> str:
    """`create_topics` as the protocol writes it: CreateTopics."""
    return "".join(word.capitalize() for word in name.split("_"))


def served_apis() -> str:
    return table(
        ("API", "key", "versions"),
        (
            (api_name(name), str(API_KEYS[name]), f"{low} to {high}" if high else "0")
            for name, (low, high) in sorted(SERVED.items(), key=lambda item: API_KEYS[item[0]])
        ),
    )


def apis_not_served() -> str:
    return table(
        ("belongs to", "API (key)"),
        (
            (subject, ", ".join(f"{api_name(name)} ({API_KEYS[name]})" for name in names))
            for subject, names in NOT_SERVED.items()
        ),
    )


def programs() -> str:
    """What came of programs of others when they last ran, by their names."""
    came = {"passed": "works", "failed": "fails"}
    rows = []
    for line in PROGRAMS.read_text("utf-8").splitlines():
        _, program, version, job, result, found = line.split("\t")
        rows.append((program, version, job, "; ".join(filter(None, (came[result], found)))))
    return table(
        ("program", "version", "job", "result"),
        sorted(rows, key=lambda row: (row[0].lower(), row[2])),
    )


def broker_table() -> str:
    return _key_table(broker_keys().values(), "when", lambda key: key.update.replace("-", " "))


def topic_table() -> str:
    def broker_key(key: Key) -> str:
        synonyms = BROKER_SYNONYMS.get(key.name)
        return f"`{synonyms[0][0]}`" if synonyms else ""

    return _key_table(topic_keys().values(), "default from", broker_key)


def group_table() -> str:
    def broker_key(key: Key) -> str:
        name = f"group.{key.name}"
        return f"`{name}`" if name in broker_keys() else ""

    return _key_table(group_keys().values(), "default from", broker_key)


def _key_table(keys: Iterable[Key], extra: str, cell: Callable[[Key], str]) -> str:
    return table(
        ("key", "default", extra, "what it does"),
        (
            (f"`{key.name}`", _default(key), cell(key), key.documentation.replace("|", "\\|"))
            for key in sorted(keys, key=lambda key: key.name)
            if key.has_effect and not key.is_internal
        ),
    )


def _default(key: Key) -> str:
    text = OWN_DEFAULTS.get(key.name, key.default)
    if text is None:
        return ""
    if text in (_LONG_MAX, _INT_MAX):
        return "no limit"
    # Commas without a space would keep a browser from breaking the line.
    return f"`{text}`".replace(",", ", ") if text else "empty"


def spark_options(direction: Direction) -> str:
    """The options of the source or the sink, or those that a state has beside the source's."""
    rows = [row for row in ROWS if row.meaning and direction in row.directions]
    if direction == "state":
        rows = [row for row in rows if "source" not in row.directions]
    cells = (
        (f"`{row.name}`", row.shown or (f"`{row.default}`" if row.default else ""), row.meaning)
        for row in rows
    )
    return table(("option", "default", "meaning"), cells)


def refused_by_states() -> str:
    """The options of the source that a state does not take, by the reason."""
    reasons: dict[str, list[str]] = {}
    for row in ROWS:
        if row.not_of_states:
            reasons.setdefault(row.not_of_states, []).append(f"`{row.name}`")
    rows = ((", ".join(names), reason) for reason, names in reasons.items())
    return table(("option", "why not"), rows)


def spark_refusals(refused: Iterable[Refusal]) -> str:
    return table(("option", "instead"), ((f"`{each.name}`", each.why) for each in refused))


#: What each package in the contract of layers is for.
LAYERS: Final = {
    "pyspark_drumlin": "by which PySpark finds the data source",
    "cli": "commands",
    "testing": "brokers and fixtures for tests",
    "console": "a cluster in a web browser",
    "capture": "a database's changes in topics",
    "migration": "offsets between stores",
    "spark": "source and sink for Spark",
    "broker": "sockets, routing, a file per API",
    "state": "a process's keyed state, whose memory is a compacted topic",
    "aio": "the client for asyncio",
    "lowlevel": "what programs of many processes need of the client",
    "metrics_server": "metrics of commands that run for long",
    "securing": "a server's own certificate authority, its administrator and its users",
    "serving": "topics kept in the stores of others",
    "client": "columns over the wire",
    "coordination": "groups, transactions, their offsets",
    "replication": "leadership, high watermark",
    "compaction": "offset map, survivors, cleaner threads: no asyncio",
    "peer": "connections to brokers",
    "metadata": "topics, configurations, brokers",
    "storage": "partition log, segments, indexes, recovery: blocking I/O, no asyncio",
    "zookeeper": "a connection to ZooKeeper, and offsets that consumers of old keep there",
    "config": "Kafka's keys: types, defaults, limits",
    "records": "bytes <-> batches and columns: pure",
    "wire": "bytes <-> messages: pure",
    "distinct": "sets of very many names",
    "together": "what is asked meanwhile goes together",
    "background": "tasks that nobody waits for",
    "addresses": "IP addresses in the form in which they are compared",
    "clock": "the time, handed in",
    "ready_threads": "threads that are there before they are needed",
    "tuples": "tuples that the garbage collector need not look at",
    "turns": "work that gives way",
}


def layers() -> str:
    """The contract of import-linter, drawn."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"] == "Layers point down")
    rows = []
    for layer in contract["layers"]:
        names = [name.removeprefix("drumlin.") for name in layer.split(" | ")]
        rows.append(
            (", ".join(f"`{name}`" for name in names), "; ".join(LAYERS[name] for name in names))
        )
    return table(("layer", "what is in it"), rows)


def rooms() -> str:
    """The contracts of rooms, drawn: each with the sentence that it opens with."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    drawn = []
    for contract in contracts:
        for container in contract.get("containers", ()):
            name = container.removeprefix("drumlin.").replace(".", "/")
            drawn.append(f"### `{name}`\n\n{_rooms_of(container, contract)}\n")
    return "".join(drawn)


def _rooms_of(container: str, contract: dict[str, list[str]]) -> str:
    folder = DOCS.parent.joinpath("src", *container.split("."))
    rows = []
    for layer in contract["layers"]:
        for name in layer.split(" | "):
            is_folder = (folder / name).is_dir()
            file = folder / name / "__init__.py" if is_folder else folder / f"{name}.py"
            opening = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
            sentences = " ".join(opening.split("\n\n")[0].split())
            rows.append((f"`{name}/`" if is_folder else f"`{name}.py`", sentences))
    return table(("", "what is in it"), rows)


def commands() -> str:
    """The help of every command, as a terminal of 90 columns shows it."""
    root = click.Context(app, info_name="drumlin", terminal_width=90)
    return "".join(_help_of(app, root))


def _help_of(command: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield f"### {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n\n"
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        # As when it is run: a command keeps the help option that it was first asked for.
        settings = found.context_settings
        inner = click.Context(found, context, info_name=name, terminal_width=90, **settings)
        yield from _help_of(found, inner)


#: Calls whose options are told, with what Kafka's clients call an option that they have, too.
OPTIONS_OF: Final[dict[str, tuple[Callable[..., object], dict[str, str]]]] = {
    "drumlin.connect": (
        connect,
        {"bootstrap": "bootstrap.servers", "security": "security.protocol, sasl.*, ssl.*"},
    ),
    "Client.read": (Client.read, {"isolation": "isolation.level", "decode": "value.deserializer"}),
    "Client.snapshot": (Client.snapshot, {"isolation": "isolation.level"}),
    "Client.restore": (Client.restore, {}),
    "Client.append": (
        Client.append,
        {
            "encode": "value.serializer",
            "compression": "compression.type",
            "batch_bytes": "batch.size",
            "buffer_bytes": "buffer.memory",
        },
    ),
    "Client.writer": (
        Client.writer,
        {
            "compression": "compression.type",
            "batch_bytes": "batch.size",
            "buffer_bytes": "buffer.memory",
            "metadata_refresh_ms": "metadata.max.age.ms",
            "partitioner": "partitioner.class",
        },
    ),
    "Client.consumer": (
        Client.consumer,
        {
            "group": "group.id",
            "protocol": "group.protocol",
            "assignors": "partition.assignment.strategy",
            "server_assignor": "group.remote.assignor",
            "rack": "client.rack",
            "commit_interval_ms": "auto.commit.interval.ms; None: enable.auto.commit=false",
            "offsets_storage": "offsets.storage",
            "dual_commit": "dual.commit.enabled",
            "zookeeper": "zookeeper.connect",
            "start": "auto.offset.reset",
            "out_of_range": "auto.offset.reset",
            "isolation": "isolation.level",
            "decode": "value.deserializer",
            "max_records": "max.poll.records",
            "max_bytes_per_batch": "max.partition.fetch.bytes",
            "max_wait_ms": "fetch.max.wait.ms",
            "metadata_refresh_ms": "metadata.max.age.ms",
        },
    ),
}
#: Options that are called what Kafka's clients call them, but for the dots.
_KAFKAS: Final = {
    "client_id",
    "request_timeout_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "client_rack",
    "acks",
    "retries",
    "linger_ms",
    "max_block_ms",
    "delivery_timeout_ms",
    "group_instance_id",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
}


def options() -> str:
    """The options of the client's calls: names and defaults from their signatures."""
    return "\n".join(_options_of(name, *each) for name, each in OPTIONS_OF.items())


def _options_of(name: str, call: Callable[..., object], kafkas: dict[str, str]) -> str:
    meanings = _meanings(call)
    parameters = [
        each for each in inspect.signature(call).parameters.values() if each.name in meanings
    ]
    rows = []
    for meaning, group in itertools.groupby(parameters, lambda each: meanings[each.name]):
        alike = list(group)
        names = ", ".join(f"`{each.name}`" for each in alike)
        defaults = (_shown(each.name, each.default) for each in alike if each.default != each.empty)
        others = (_kafkas_name(each.name, kafkas) for each in alike)
        default = ", ".join(dict.fromkeys(f"`{each}`" for each in defaults))
        rows.append((names, default, meaning, ", ".join(dict.fromkeys(filter(None, others)))))
    return f"### `{name}`\n\n{table(('option', 'default', 'meaning', 'in Kafka'), rows)}"


def _kafkas_name(name: str, kafkas: dict[str, str]) -> str:
    return name.replace("_", ".") if name in _KAFKAS else kafkas.get(name, "")


def _shown(name: str, default: object) -> str:
    """A default; sizes in their units."""
    if name.endswith(("_bytes", "bytes_per_batch")) and isinstance(default, int):
        for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
            if default and default % (1 << power) == 0:
                return f"{default >> power} {unit}"
    return f"{default:,}" if type(default) is int else repr(default)


def _meanings(call: Callable[..., object]) -> dict[str, str]:
    """What the docstring says of each parameter; one sentence may be of several."""
    said = inspect.getdoc(call) or ""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", said, re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    for entry in re.findall(
        r"^    (\S.*(?:\n      .*)*)", section[1] if section else "", re.MULTILINE
    ):
        names, _, meaning = " ".join(entry.split()).partition(": ")
        found |= dict.fromkeys(names.split(", "), meaning.replace("|", "\\|"))
    return found


TABLES: Final[dict[str, Callable[[], str]]] = {
    "layers": layers,
    "rooms": rooms,
    "options": options,
    "served": served_apis,
    "not-served": apis_not_served,
    "programs": programs,
    "broker-keys": broker_table,
    "topic-keys": topic_table,
    "group-keys": group_table,
    "commands": commands,
    "source-options": lambda: spark_options("source"),
    "sink-options": lambda: spark_options("sink"),
    "state-options": lambda: spark_options("state"),
    "refused-by-states": refused_by_states,
    "refused-by-source": lambda: spark_refusals(REFUSED_BY_SOURCE),
    "refused-by-sink": lambda: spark_refusals(REFUSED_BY_SINK),
}


def with_tables(text: str) -> str:
    """A document with all its tables as they should be."""
    return _TABLE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def main() -> None:
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (wanted := with_tables(text)) != text:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
