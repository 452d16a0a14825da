"""The rows of options that source and sink share: the cluster's address, timeouts and retries."""

from __future__ import annotations

from typing import Any, Final

from drumlin.spark.options.option import ALL, WRITES, Option
from drumlin.spark.options.option_values import boolean, not_blank, positive

BOOTSTRAP: Final = Option(
    "kafka.bootstrap.servers",
    not_blank,
    "some of the brokers, as `host:port,…`; must be given",
    directions=ALL,
)
STRICT: Final = Option(
    "strictOptions",
    boolean,
    "refuse unknown options, and those of the other direction, instead of warning about them",
    "false",
    directions=ALL,
)
INCLUDE_HEADERS: Final = Option(
    "includeHeaders",
    boolean,
    "the source gives the column `headers`, too; the sink always writes the headers that rows have",
    "false",
    directions=ALL,
)

#: The client's timeouts and retries. Of two rows with one keyword, the later one wins.
CLIENT_ROWS: Final[tuple[Option[Any], ...]] = (
    Option(
        "kafka.request.timeout.ms",
        positive,
        "how long a request is tried, in the driver and in tasks. By default a broker has 30 s of "
        "that for one answer",
        shown="one minute",
        directions=ALL,
        keyword="request_timeout_ms",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        positive,
        "the same as `kafka.request.timeout.ms`, and wins over it",
        keyword="request_timeout_ms",
    ),
    Option(
        "kafka.max.block.ms",
        positive,
        "how long any call other than a delivery is tried",
        shown="`kafka.request.timeout.ms` if that is given, else 60000",
        directions=WRITES,
        keyword="call_timeout_ms",
    ),
    Option(
        "kafka.socket.connection.setup.timeout.ms",
        positive,
        "how long a broker may take to accept a connection",
        shown="`10000`",
        directions=ALL,
        keyword="connect_timeout_ms",
    ),
    Option(
        "kafka.retry.backoff.ms",
        positive,
        "how long to wait before something is tried again, at first",
        shown="`50`",
        directions=ALL,
        keyword="retry_backoff_ms",
    ),
    Option(
        "kafka.retry.backoff.max.ms",
        positive,
        "the same, after many tries",
        shown="`1000`",
        directions=ALL,
        keyword="retry_backoff_max_ms",
    ),
    Option(
        "kafka.client.id",
        str,
        "the name by which brokers know the client, in their logs and quotas",
        "drumlin-spark",
        directions=ALL,
        keyword="client_id",
    ),
    Option(
        "kafka.client.rack",
        str.strip,
        "the rack (zone) of the executors: where brokers have a replica selector, a replica there "
        "is read (KIP-392), and the leader if that one fails",
        keyword="client_rack",
    ),
)
