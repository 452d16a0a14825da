"""This process's clients, each for the cluster that the options of a query name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from drumlin.spark.options.client_options import ClientOptions, OfCluster

if TYPE_CHECKING:  # pulls in pyarrow, too costly for a session that only looks for data sources
    from drumlin.client.client import Client


def client_of(options: OfCluster) -> Client:
    """This process's client for a query's cluster.

    Spark reuses its Python workers, so the connections of one task serve the next; they end with
    the process. If a broker is down when a worker starts, the worker waits for it.
    """
    return _connect(options.bootstrap_servers, options.client_options)


@functools.cache
def _connect(bootstrap: str, client_options: ClientOptions) -> Client:
    from drumlin.client.client import connect

    arguments: dict[str, Any] = dict(client_options)
    return connect(bootstrap, check=False, **arguments)
