"""The command line of the benchmarks; `./script/bench --help` shows it."""

from __future__ import annotations

import argparse
import importlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bench.harness import Comparison, Options
from bench.published import PUBLISHED, Runs, read_document
from bench.report import print_table, write_chart, write_json

#: In the order in which they run: the quick ones first.
BENCHES = {
    "command_line": "how soon commands are done, beside an empty Python",
    "consume_command": "drumlin consume beside kcat, records of 100 B and of 1 KB",
    "produce": "raw produce requests: rate and processor time",
    "fetch": "raw fetch requests: rate and processor time",
    "cores": "two brokers on one machine beside one: rate and processor time",
    "producer_performance": "Kafka's own ProducerPerformance against both",
    "latency": "end to end, 5,000 records/s of 1 KB",
    "transactions": "transactions per second of one producer",
    "offset_commits": "committing offsets: rate and processor time",
    "groups": "1,000 members, and 1,000 groups: time until stable",
    "columns": "the columnar client beside confluent-kafka, on one core",
    "asyncio_clients": "drumlin.aio beside aiokafka and our synchronous client",
    "uses": "tables that follow, and tables in stores, beside what a program does itself",
    "spark": "Spark read beside Spark's own Kafka connector",
    "spark_state": "drumlin.spark.snapshot beside max_by and a window over Spark's connector",
    "spark_write": "Spark write beside Spark's own Kafka sink",
    "compaction": "cleaning a topic of 6 million records and 1 million keys",
    "compaction_latency": "end to end latency while a cleaner runs",
    "compaction_growth": "cleaning time against log size and distinct keys",
    "offset_map": "memory of the cleaner's map for each key",
    "partitions": "5,000 partitions: start, and what an idle one costs",
    "stalls": "what a steady client sees beside a hostile or heavy one",
    "turns": "the longest turn of our event loop, whatever is asked",
    "cluster": "three brokers, three replicas, beside three Kafkas",
    "cluster_growth": "three brokers with up to 20,000 partitions of three replicas",
    "state_uses": "a keyed state that counts, exactly once, with commits each 100 ms",
    "security": "what TLS, ACLs and a storm of handshakes cost",
    "seeing": "what metrics cost, how long a scrape keeps the loop, an idle console",
    "real_clients": "the shapes that real clients have: rate and processor time",
}


def main() -> int:
    signal.signal(signal.SIGTERM, _end)
    arguments = arguments_of(sys.argv[1:])
    if arguments.publish:
        return _publish(arguments)
    results, failed = _run(arguments)
    if results:
        arguments.output.mkdir(parents=True, exist_ok=True)
        write_json(arguments.output / "bench.json", results)
        write_chart(arguments.output / "bench.png", results)
        print_table(results)
        print(f"Written: {arguments.output}/bench.json, {arguments.output}/bench.png")
    return _told(failed)


def _run(arguments: argparse.Namespace) -> tuple[list[Comparison], list[str]]:
    """What the benchmarks give, and which of them failed."""
    results: list[Comparison] = []
    failed = []
    for name in arguments.benches or BENCHES:
        directory = Path(tempfile.mkdtemp(prefix="drumlin-bench-", dir=arguments.directory))
        options = Options(
            arguments.rounds,
            arguments.warmup,
            arguments.seconds,
            directory,
            arguments.scale,
            arguments.output,
            tuple(arguments.rows.split(",")) if arguments.rows else (),
        )
        try:
            results += importlib.import_module(f"bench.{name}").run(options)
        except Exception as error:
            # The others still have something to say; the exit code remembers this one.
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            failed.append(name)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return results, failed


def _publish(arguments: argparse.Namespace) -> int:
    """Run what is published, or those of its commands that are named, and write the document."""
    read_document()  # better now than when all is measured
    runs, failed = Runs(arguments.output / "published.json"), []
    for command in PUBLISHED:
        its = arguments_of(command.split())
        if arguments.benches and its.benches[0] not in arguments.benches:
            continue
        results, failures = _run(its)
        if failures:
            failed.append(command)
        else:
            runs.store(command, results)
    if not failed:
        runs.write_document()
    return _told(failed)


def _told(failed: Sequence[str]) -> int:
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _end(number: int, _: object) -> NoReturn:
    """End as by any error, so that what was started is ended and what was written is removed."""
    sys.exit(128 + number)


def arguments_of(line: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/bench",
        description="Drumlin beside Apache Kafka and Spark's Kafka connector.",
        epilog="benchmarks:\n" + "\n".join(f"  {k:22}{v}" for k, v in BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benches", nargs="*", metavar="BENCHMARK", help="default: all of them")
    parser.add_argument(
        "--publish",
        action="store_true",
        help="measure what docs/benchmarks.md publishes (with BENCHMARK: only this part of it "
        "again), with rounds and rows of its own, and write its table",
    )
    parser.add_argument("--rounds", type=int, default=7, help="of each side (default: 7)")
    parser.add_argument(
        "--warmup",
        type=int,
        default=4,
        help="rounds without a gain until a side counts as warm; 0: no warm-up (default: 4)",
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round (default: 2)")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="of the topics of `compaction*` and `spark*`, and the sizes of `stalls`, `turns` and "
        "`seeing` (default: 1)",
    )
    parser.add_argument(
        "--rows",
        metavar="ROW,…",
        help="of `spark*`, `stalls`, `turns`, `security`, `seeing` and `real_clients` "
        "(default: all)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("/dev/shm"),
        help="where brokers keep their data (default: /dev/shm, memory)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/bench"), help="default: build/bench"
    )
    arguments = parser.parse_args(line)
    unknown = set(arguments.benches) - BENCHES.keys()
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
