"""Refuses options with the names of Kafka's clients, with a hint to the names here.

Owns the list of these names. Any other unknown option raises Python's own `TypeError`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

#: The name here, by the name in Kafka's clients.
_HERE: Final = {
    "auto_commit_interval_ms": "commit_interval_ms",
    "auto_offset_reset": "start",
    "batch_size": "batch_bytes",
    "bootstrap_servers": "bootstrap",
    "buffer_memory": "buffer_bytes",
    "client_rack": "rack",
    "compression_type": "compression",
    "dual_commit_enabled": "dual_commit",
    "enable_auto_commit": "commit_interval_ms=None",
    "fetch_max_wait_ms": "max_wait_ms",
    "group_id": "group",
    "group_protocol": "protocol",
    "group_remote_assignor": "server_assignor",
    "isolation_level": "isolation",
    "key_deserializer": "decode",
    "key_serializer": "encode",
    "max_partition_fetch_bytes": "max_bytes_per_batch",
    "max_poll_records": "max_records",
    "num_partitions": "partitions",
    "partition_assignment_strategy": "assignors",
    "rack": "client_rack",
    "sasl_mechanism": "security",
    "security_protocol": "security",
    "value_deserializer": "decode",
    "value_serializer": "encode",
    "topic_configs": "configs",
    "zookeeper_connect": "zookeeper",
}


def knows_kafkas_names(
    function: Callable[_Arguments, _Result],
) -> Callable[_Arguments, _Result]:
    """Decorate a function: the error for an option's Kafka name has a hint to the name here."""
    own = function.__annotations__.keys()

    @functools.wraps(function)
    def wrapper(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        for name in options.keys() - own:
            here = _HERE.get(name, "")
            if here.partition("=")[0] in own:
                raise TypeError(
                    f"{function.__name__}() has no option {name!r}: it is called {here!r} here"
                )
        return function(*args, **options)

    return wrapper
