"""The configuration that these tests hand in: Kafka's defaults, to be changed one by one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class TransactionSettings:
    # Tests of time look at it themselves.
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_max_timeout_ms: int = 900_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_state_log_num_partitions: int = 1
    transactional_id_expiration_ms: int = 604_800_000
