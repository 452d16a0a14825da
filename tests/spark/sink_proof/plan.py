"""What one proof does: a stream of micro-batches from a topic to a topic, and what befalls it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

Shape = Literal["copy", "windows", "updates"]
SOURCE, TARGET = "source", "target"
STANDALONE = "standalone"
PARTITIONS = 4
#: Records of the source are as many milliseconds apart.
STEP_MS = 1000
FIRST_MS = 1_700_000_000_000
#: How many records the shapes with an aggregation have in a window, and how many keys.
WINDOW_RECORDS = 100
KEYS = 17


@dataclass(frozen=True)
class Plan:
    """One proof; the same one makes the same choices, as far as programs that are killed can."""

    seed: str
    #: `drumlin`, `kafka`, or a version of Apache Kafka as `kafka-3.0`.
    broker: str = "drumlin"
    #: Spark's, or `standalone`: its own cluster on two hosts, where tasks may have twins.
    master: str = "local[2,8]"
    #: `copy`: every record as it is. `windows`: counts of windows that are closed, in mode
    #: append. `updates`: counts of keys that changed, by `drumlin.spark.sink`.
    shape: Shape = "copy"
    delivery: str = "exactly-once"
    batches: int = 50
    rows_per_batch: int = 200
    tasks: int = 4
    #: What is done from outside, one after the other while the stream runs: see `striking`.
    faults: tuple[str, ...] = ()
    #: How many of the tasks, and of the commits and aborts, fail from within: see `sabotage`.
    failing_tasks: float = 0.0
    failing_commits: float = 0.0
    speculation: bool = False
    #: The longest that the broker allows, which is what the sink asks for.
    transaction_timeout_ms: int = 60_000
    #: The longest that a batch may take, with what befalls it; it is for a machine under load.
    batch_s: float = 300.0

    @property
    def rows(self) -> int:
        return self.batches * self.rows_per_batch

    @property
    def has_shuffles_to_lose(self) -> bool:
        """Whether an executor that dies takes along what another one is to fetch."""
        return self.master.startswith("local-cluster") and self.shape != "copy"

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Plan:
        fields = json.loads(text)
        return cls(**fields | {"faults": tuple(fields["faults"])})
