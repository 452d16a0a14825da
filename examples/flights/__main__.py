"""Drumlin in a minute: a year of flights through a topic, a Spark stream and the cleaner; pictures.

Run it with `./script/demo`. Broker, log and checkpoint live in a temporary folder that goes
when it ends; the results stay in `build/demo`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import history_chart
import last_flights
import last_flights_chart
import pandas as pd
import run_report
from chart import draw
from delays import run_query, start_spark
from flights_data import Flights, load_flights
from history import AsOf, history
from last_flights import Compaction
from local_broker import local_broker
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
#: So that the demo need not wait for the cleaner, which rests for 15 s by default.
SETTINGS = {"log.cleaner.backoff.ms": "100"}
OUTPUT = Path("build/demo")
RESULT = OUTPUT / "delays.parquet"
CHART = OUTPUT / "delays.png"
COMPACTION_CHART = OUTPUT / "compaction.png"
HISTORY_CHART = OUTPUT / "history.png"
REPORT = OUTPUT / "report.html"
BOX = box.SIMPLE_HEAD

console = Console(highlight=False)
story: list[str] = []


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="drumlin-demo-") as name:
        folder = Path(name)
        flights = load_flights()
        say(f"Loaded {len(flights.records):,} flights that left New York in 2013.")
        began = time.monotonic()
        with local_broker(folder, SETTINGS) as broker:
            say(f"Started a broker on {broker.address}", began)
            with drumlin.connect(broker.address) as client:
                fill_topic(client, flights)
                months = look_back(client)
                batches = stream_delays(broker.address, flights, folder)
                compacted = compact_topic(client, flights, broker.cleaner_status_url)
    delays = pd.read_parquet(RESULT)
    draw(delays, CHART)
    last_flights_chart.draw(compacted, COMPACTION_CHART)
    history_chart.draw(months, HISTORY_CHART)
    tables = [batches_table(batches), airlines_table(delays), compaction_table(compacted)]
    pictures = [CHART, HISTORY_CHART, COMPACTION_CHART]
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


def stream_delays(address: str, flights: Flights, folder: Path) -> list[StreamingQueryProgress]:
    """Run the streaming query over the whole topic; what Spark says of each micro-batch."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(RESULT, ignore_errors=True)
    began = time.monotonic()
    with console.status("Starting Spark ..."):
        spark = start_spark()
    say("Started Spark", began)
    began = time.monotonic()
    with console.status("Streaming: delays by carrier and day, joined with the airlines ..."):
        query = run_query(spark, address, TOPIC, flights.airlines, RESULT, folder / "checkpoint")
    say(f"Streamed the topic through Spark into {RESULT}", began)
    batches = query.recentProgress
    spark.stop()
    return batches


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
