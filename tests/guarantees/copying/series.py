"""`script/torture --copy`: the copy at full size, by each client, with and without faults."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from guarantees.brokers import make_broker
from guarantees.copying.copying import Copy, copy

_RECORDS = 100_000
_TRANSACTION_SIZE = 750


def copy_all(kind: str, directory: Path) -> int:
    """Prints a line for each; 1 if one of them went wrong."""
    failed = 0
    plain = Copy(_RECORDS, _TRANSACTION_SIZE, kills=12, timeout_s=900)
    for changes in (
        {"protocol": "range"},
        {"protocol": "consumer", "broker_faults": True},
        {"client": "java"},
        {"client": "java", "broker_faults": True},
    ):
        name = "-".join(str(each) for each in changes.values())
        failed += not _copy_once(replace(plain, **changes), kind, directory / f"copy-{name}")
    return 1 if failed else 0


def _copy_once(plan: Copy, kind: str, directory: Path) -> bool:
    shutil.rmtree(directory, ignore_errors=True)
    broker = make_broker(kind, directory)
    try:
        broker.start()
        copied = copy(plan, broker, directory)
    finally:
        broker.close()
    told = "\n    ".join(["right", *copied.complaints][bool(copied.complaints) :])
    print(
        f"{plan.client}: {plan.records} records in transactions of {plan.transaction_size}, "
        f"{copied.kills} copiers killed, {sum(copied.faults.values())} faults of the broker, "
        f"{copied.seconds:.0f} s: {told}",
        flush=True,
    )
    if not copied.complaints:
        shutil.rmtree(directory)
    return not copied.complaints
