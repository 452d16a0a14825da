"""Drumlin in a minute: a year of flights through a topic, a Spark stream and the cleaner, and a
table of PostgreSQL that arrives in other places; pictures.

Run it with `./script/demo`. Broker, log and checkpoint live in a temporary folder that goes
when it ends; the results stay in `build/demo`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import history_chart
import last_flights
import last_flights_chart
import pandas as pd
import psycopg
import run_report
from arrivals import DAYS, Arrival, Cache, Commands, Database, Lake, Place, check, wait_for
from chart import draw
from delays import run_query, start_spark
from flights_data import Flights, load_flights
from history import AsOf, history
from last_flights import Compaction
from live_chart import LiveChart
from local_broker import local_broker
from local_postgres import Unavailable, local_postgres
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

import drumlin
from drumlin import Client

TOPIC = "flights"
PARTITIONS = 2
COMPACTED_TOPIC = "last-flights"
#: So that the demo need not wait for the cleaner, which rests for 15 s by default, or for other
#: members of a group.
SETTINGS = {"log.cleaner.backoff.ms": "100", "group.initial.rebalance.delay.ms": "0"}
OUTPUT = Path("build/demo")
RESULT = OUTPUT / "delays.parquet"
CHART = OUTPUT / "delays.png"
COMPACTION_CHART = OUTPUT / "compaction.png"
HISTORY_CHART = OUTPUT / "history.png"
ARRIVALS_CHART = OUTPUT / "arrivals.png"
REPORT = OUTPUT / "report.html"
BOX = box.SIMPLE_HEAD

console = Console(highlight=False)
story: list[str] = []


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="drumlin-demo-") as name:
        folder = Path(name)
        flights = load_flights()
        say(f"Loaded {len(flights.records):,} flights that left New York in 2013.")
        OUTPUT.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with local_broker(folder, SETTINGS) as broker:
            say(f"Started a broker on {broker.address}", began)
            with drumlin.connect(broker.address) as client:
                fill_topic(client, flights)
                months = look_back(client)
                with started_spark() as spark:
                    batches = stream_delays(spark, broker.address, flights, folder)
                    follow_database(spark, client, broker.address, flights, folder)
                compacted = compact_topic(client, flights, broker.cleaner_status_url)
    delays = pd.read_parquet(RESULT)
    draw(delays, CHART)
    last_flights_chart.draw(compacted, COMPACTION_CHART)
    history_chart.draw(months, HISTORY_CHART)
    tables = [batches_table(batches), airlines_table(delays), compaction_table(compacted)]
    pictures = [CHART, ARRIVALS_CHART, HISTORY_CHART, COMPACTION_CHART]
    pictures = [each for each in pictures if each.exists()]
    run_report.write(REPORT, "A year of flights through Drumlin", story, pictures, tables)
    console.print()
    console.print(*tables)
    console.print(what_next())


def say(what: str, began: float | None = None) -> float:
    """One line of the story; with `began`, how many seconds it took."""
    seconds = 0.0 if began is None else time.monotonic() - began
    took = "" if began is None else f" [dim]({seconds:.1f} s)[/]"
    console.print(f"[green]✓[/] {what}{took}", soft_wrap=True)
    story.append(what if began is None else f"{what} ({seconds:.1f} s)")
    return seconds


def fill_topic(client: Client, flights: Flights) -> None:
    """Write the flights; they are of 2013, so with the usual retention they would go at once."""
    client.create_topic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"})
    began = time.monotonic()
    client.append(flights.records, TOPIC)
    seconds = say(f"Wrote them to the topic '{TOPIC}' in time order, keyed by tail number", began)
    rate, megabytes = len(flights.records) / seconds, flights.value_bytes / 1e6 / seconds
    console.print(f"  [dim]{rate:,.0f} records/s, {megabytes:,.0f} MB/s[/]")
    without = flights.records.column("key").null_count
    console.print(f"  [dim]{without:,} cancelled flights have no tail number: their key is null[/]")


def look_back(client: Client) -> list[AsOf]:
    """The table that the topic stands for, as of each month."""
    began = time.monotonic()
    with console.status("Looking back: the last flight of each aircraft, as of each month ..."):
        months = history(client, TOPIC)
    say(f"Took the last flight of each aircraft from the topic as of {len(months)} moments", began)
    return months


@contextlib.contextmanager
def started_spark() -> Iterator[SparkSession]:
    """One Spark for both stages that take it."""
    began = time.monotonic()
    with console.status("Starting Spark ..."):
        spark = start_spark()
    say("Started Spark", began)
    yield spark
    spark.stop()


def stream_delays(
    spark: SparkSession, address: str, flights: Flights, folder: Path
) -> list[StreamingQueryProgress]:
    """Run the streaming query over the whole topic; what Spark says of each micro-batch."""
    shutil.rmtree(RESULT, ignore_errors=True)
    began = time.monotonic()
    with console.status("Streaming: delays by carrier and day, joined with the airlines ..."):
        query = run_query(spark, address, TOPIC, flights.airlines, RESULT, folder / "checkpoint")
    say(f"Streamed the topic through Spark into {RESULT}", began)
    return query.recentProgress


def follow_database(
    spark: SparkSession, client: Client, address: str, flights: Flights, folder: Path
) -> None:
    """Bring a table of PostgreSQL into a cache, Iceberg and a chart, and change it."""
    ARRIVALS_CHART.unlink(missing_ok=True)
    began = time.monotonic()
    try:
        with local_postgres(folder) as url, psycopg.connect(url, autocommit=True) as connection:
            database = Database(connection, flights.records)
            say(f"Started a PostgreSQL, with a table of {len(database.rows()):,} aircraft", began)
            with Commands(address, url, folder) as commands, LiveChart(ARRIVALS_CHART) as chart:
                say(f"Captured it in a topic: {commands.capture(client)}")
                say(f"Had the topic kept in a cache: {commands.materialize()}")
                with Cache(folder) as cache, Lake(spark, address, folder) as lake:
                    say(f"... in Iceberg: {lake.call}")
                    chart.follow(client, flights.airlines)
                    say("... and in a chart, by a table that follows: client.table(...)")
                    places = {"cache": cache, "chart": chart, "Iceberg": lake}
                    chart.arrivals = watch_arrivals(database, places, commands)
    except Unavailable as error:
        say(f"Left out how a table of PostgreSQL arrives elsewhere: {error}")


def watch_arrivals(
    database: Database, places: Mapping[str, Place], commands: Commands
) -> list[Arrival]:
    """Change the table, and look when each place has the change."""
    began, arrivals = time.monotonic(), list[Arrival]()
    with console.status("Waiting until the table is there ..."):
        wait_for(database.flights(), places, commands)
    say("The table is in all three", began)
    for _ in range(DAYS):
        rows = database.change()
        arrivals.append(Arrival(rows, wait_for(database.flights(), places, commands)))
        after = ", ".join(f"{ms:,.0f} ms ({name})" for name, ms in arrivals[-1].after_ms.items())
        say(f"Changed {rows:,} rows in PostgreSQL; they are there after {after}")
    check(database, places)
    say("All three have exactly the rows that PostgreSQL has")
    return arrivals


def compact_topic(client: Client, flights: Flights, status_url: str) -> Compaction:
    """Write the flights again, into a topic that is to keep the last one of each aircraft."""
    began = time.monotonic()
    last_flights.fill(client, COMPACTED_TOPIC, flights.records)
    say(f"Wrote those with a tail number to the compacted topic '{COMPACTED_TOPIC}'", began)
    with console.status("Waiting for the broker to clean it ..."):
        done = last_flights.compact(client, COMPACTED_TOPIC, status_url)
    say(f"Had the broker clean it ({done.seconds:.1f} s)")
    last_flights.check(done.before.records, done.after.records)
    say("Read it again: the last flight of every aircraft is there, at the same offset")
    return done


def batches_table(batches: list[StreamingQueryProgress]) -> Table:
    """What the micro-batches read, and how fast."""
    table = Table("batch", "records", "records/s", "end offsets", title="Micro-batches", box=BOX)
    for progress in batches:
        table.add_row(
            str(progress.batchId),
            f"{progress.numInputRows:,}",
            f"{progress.processedRowsPerSecond:,.0f}",
            progress.sources[0].endOffset,
        )
    return table


def airlines_table(delays: pd.DataFrame) -> Table:
    """The year of every airline in one row."""
    table = Table("airline", title="Departure delays of 2013, in minutes", box=BOX)
    for name in ("flights", "cancelled", "mean", "worst day", "mean"):
        table.add_column(name, justify="right")
    for name, days in sorted(delays.groupby("name"), key=lambda group: -group[1]["flights"].sum()):
        worst = days.loc[days["departure_delay"].idxmax()]
        departed = days["flights"] - days["cancelled"]
        mean = (days["departure_delay"] * departed).sum() / departed.sum()
        table.add_row(
            str(name),
            f"{days['flights'].sum():,}",
            f"{days['cancelled'].sum():,}",
            f"{mean:.1f}",
            f"{worst['day']:%d %b}",
            f"{worst['departure_delay']:,.0f}",
        )
    table.show_footer = True
    table.columns[0].footer = "all"
    table.columns[1].footer = f"{delays['flights'].sum():,}"
    table.columns[2].footer = f"{delays['cancelled'].sum():,}"
    return table


def compaction_table(done: Compaction) -> Table:
    """What the topic held before and after it was cleaned."""
    table = Table("", title=f"Compaction of '{COMPACTED_TOPIC}'", box=BOX)
    for name in ("records", "bytes on disk", "aircraft"):
        table.add_column(name, justify="right")
    for when, snapshot in (("before", done.before), ("after", done.after)):
        table.add_row(
            when,
            f"{snapshot.records.num_rows:,}",
            f"{snapshot.size_bytes:,}",
            f"{snapshot.aircraft:,}",
        )
    waiting = int(done.before.records["offset"][-1].as_py()) + 1 - done.end_offset
    table.caption = f"The newest {waiting:,} are in the active segment, which is not cleaned."
    return table


def what_next() -> Panel:
    """What to type after the demo."""
    return Panel.fit(
        f"The report of this run, with its charts, is [bold]{REPORT}[/],\n"
        f"the result [bold]{RESULT}[/];\n"
        "everything else is cleaned up.\n\n"
        "Start a broker that stays:\n"
        "  [cyan]source .venv/bin/activate[/]\n"
        "  [cyan]drumlin server --data ./data --listen 127.0.0.1:9092[/]\n\n"
        "In another terminal, talk to it, like this or with any Kafka client:\n"
        "  [cyan]source .venv/bin/activate[/]\n"
        "  [cyan]seq 1000 | drumlin produce numbers[/]\n"
        "  [cyan]drumlin consume numbers -n 5[/]\n\n"
        "Read it in PySpark, no jar needed:\n"
        '  [cyan]spark.read.format("drumlin").option("subscribe", "numbers")\n'
        '      .option("kafka.bootstrap.servers", "127.0.0.1:9092").load()[/]',
        title="Next",
    )


if __name__ == "__main__":
    main()
