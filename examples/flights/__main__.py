"""Drumlin in a minute: a year of flights into a topic, a Spark stream out of it, a picture.

Run it with `./script/demo`. Broker, log and checkpoint live in a temporary folder that goes
when it ends; the result stays in `build/demo`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import pandas as pd
from chart import draw
from delays import run_query, start_spark
from flights_data import Flights, load_flights
from local_broker import local_broker
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from drumlin.client.client import Client, connect

TOPIC = "flights"
PARTITIONS = 2
OUTPUT = Path("build/demo")

console = Console(highlight=False)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="drumlin-demo-") as name:
        folder = Path(name)
        flights = load_flights()
        say(f"Loaded {len(flights.records):,} flights that left New York in 2013.")
        began = time.monotonic()
        with local_broker(folder) as address:
            say(f"Started a broker on {address}", time.monotonic() - began)
            with connect(address) as client:
                fill_topic(client, flights)
            query = stream_delays(address, flights, folder)
    delays = pd.read_parquet(OUTPUT / "delays.parquet")
    draw(delays, OUTPUT / "delays.png")
    console.print(batches_table(query), airlines_table(delays))
    console.print(what_next())


def say(what: str, seconds: float | None = None) -> None:
    """One line of the story, with how long it took."""
    console.print(
        f"[green]✓[/] {what}" + ("" if seconds is None else f" [dim]({seconds:.1f} s)[/]")
    )


def fill_topic(client: Client, flights: Flights) -> None:
    """The flights are of 2013: with the default retention they would be gone at once."""
    client.create_topic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"})
    began = time.monotonic()
    client.append(flights.records, TOPIC)
    seconds = time.monotonic() - began
    rate, megabytes = len(flights.records) / seconds, flights.value_bytes / 1e6
    say(
        f"Wrote them to the topic '{TOPIC}' in time order, keyed by tail number: "
        f"{rate:,.0f} records/s, {megabytes / seconds:,.0f} MB/s",
        seconds,
    )


def stream_delays(address: str, flights: Flights, folder: Path) -> StreamingQuery:
    """Run the streaming query over the whole topic."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    result = OUTPUT / "delays.parquet"
    shutil.rmtree(result, ignore_errors=True)
    began = time.monotonic()
    with console.status("Starting Spark ..."):
        spark = start_spark()
    say("Started Spark", time.monotonic() - began)
    began = time.monotonic()
    with console.status("Streaming ..."):
        query = run_query(spark, address, TOPIC, flights.airlines, result, folder / "checkpoint")
    seconds = time.monotonic() - began
    say(f"Streamed the topic through Spark into {result}", seconds)
    return query


def batches_table(query: StreamingQuery) -> Table:
    """What the micro-batches read, and how fast."""
    table = Table("batch", "records", "records/s", "end offsets", title="Micro-batches")
    for progress in query.recentProgress:
        source = progress.sources[0]
        table.add_row(
            str(progress.batchId),
            f"{source.numInputRows:,}",
            f"{progress.processedRowsPerSecond:,.0f}",
            source.endOffset,
        )
    return table


def airlines_table(delays: pd.DataFrame) -> Table:
    """The year of every airline in one row."""
    table = Table(
        "airline", "flights", "cancelled", "mean delay", "worst day", title="Delays of 2013"
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for name, days in sorted(delays.groupby("name"), key=lambda group: -group[1]["flights"].sum()):
        worst = days.loc[days["departure_delay"].idxmax()]
        departed = days["flights"] - days["cancelled"]
        mean = (days["departure_delay"] * departed).sum() / departed.sum()
        table.add_row(
            str(name),
            f"{days['flights'].sum():,}",
            f"{days['cancelled'].sum():,}",
            f"{mean:.1f} min",
            f"{worst['day']}: {worst['departure_delay']:.0f} min",
        )
    return table


def what_next() -> Panel:
    """What to type after the demo."""
    return Panel.fit(
        f"The chart is [bold]{OUTPUT / 'delays.png'}[/], the result "
        f"[bold]{OUTPUT / 'delays.parquet'}[/]; everything else is cleaned up.\n\n"
        "Start a broker that stays, and talk to it, here or with any Kafka client:\n"
        "  [cyan]source .venv/bin/activate[/]\n"
        "  [cyan]drumlin server --data ./data --listen 127.0.0.1:9092 &[/]\n"
        "  [cyan]seq 1000 | drumlin produce numbers[/]\n"
        "  [cyan]drumlin consume numbers -n 5[/]\n\n"
        "Read it in PySpark, no jar needed:\n"
        '  [cyan]spark.read.format("drumlin").option("subscribe", "numbers")\n'
        '      .option("kafka.bootstrap.servers", "127.0.0.1:9092").load()[/]',
        title="Next",
    )


if __name__ == "__main__":
    main()
