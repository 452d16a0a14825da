"""`drumlin clock`: show whether a broker trusts its machine's wall clock; restore trust."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from drumlin.cli.reach.broker_http import BrokerHttp, broker_on
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Group, Option
from drumlin.cli.terminal.options import AsJson, examples

_COLUMNS: Final = ("wall_timestamp", "expiry_timestamp", "state")

app = Group(help="Show a broker's clock; mark it as right after a jump.")

DataDirectory = Annotated[
    Path,
    Option("--data", "-d", metavar="DIR", help="A broker's data directory, on this machine."),
]


@app.add(epilog=examples("drumlin clock status --data /var/lib/drumlin"))
def status(data: DataDirectory, as_json: AsJson = False) -> None:
    """Show the wall clock, and the time by which records and everything else expire.

    The two are the same, except for an hour after the wall clock has jumped ahead.
    """
    _show(_broker(data).get("/clock"), as_json)


@app.add(epilog=examples("drumlin clock trust --data /var/lib/drumlin"))
def trust(data: DataDirectory, as_json: AsJson = False) -> None:
    """Accept the wall clock although it has jumped: records that are old by it expire now."""
    _show(_broker(data).post("/clock/trust", {}), as_json)


def _broker(data: Path) -> BrokerHttp:
    broker = broker_on(data)
    if broker is None:
        raise output.Failure(f"no broker runs on {data}")
    return broker


def _show(answer: Any, as_json: bool) -> None:
    rows = answer["results"]
    if as_json:
        output.show_json(rows)
        return
    columns = ("broker", *_COLUMNS) if any("broker" in row for row in rows) else _COLUMNS
    shown = [
        {
            **row,
            "wall_timestamp": row["wall_ms"],
            "expiry_timestamp": row["expiry_ms"],
            "state": _state(row),
        }
        for row in rows
    ]
    output.show_rows(shown, columns, as_json=False, empty="no brokers")


def _state(row: dict[str, Any]) -> str:
    if not row["is_doubted"]:
        return "counts"
    return f"{row['ahead_ms'] // 1000} s ahead, counts in {row['counts_in_s']} s"
