"""What readers see of transactions: rows go in, and committed values come out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from drumlin.client.admin import group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from rig.waiting import wait_until


def rows(*values: str) -> pa.Table:
    """A row for each value, which is its key as well."""
    return pa.table({"key": list(values), "value": list(values)})


def committed(client: Client, topic: str) -> list[str]:
    """The values that a reader sees who reads no open or aborted transaction: sorted."""
    table = client.read(topic, isolation="read_committed")
    return sorted(each.as_py().decode() for each in table["value"])


def await_committed(client: Client, topic: str, values: Collection[str]) -> None:
    """Markers are written after the commit is answered."""
    wait_until(lambda: committed(client, topic) == sorted(values), f"{values} to be read")


def is_stable(client: Client, topic: str) -> bool:
    """Whether no transaction is open in the topic."""
    ends = client.offsets(topic, "latest")
    return client.offsets(topic, "latest", isolation="read_committed") == ends


def offsets_of(client: Client, group: str) -> Mapping[tuple[str, int], OffsetAndMetadata]:
    return client._run(group_admin.fetch_committed(client._connections, group))
