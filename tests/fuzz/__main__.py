"""`script/torture --fuzz`: the fuzzers at length, one round after the other with new seeds."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from fuzz.broker import fuzz_broker
from fuzz.client import fuzz_client
from fuzz.strangers import fuzz_strangers


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/torture --fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for each of the three in a run"
    )
    parser.add_argument("--seed", type=int, help="of the first run; they count up")
    parser.add_argument("--directory", default="build/fuzz", help="where failures are kept")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else int(time.time())
    failed = 0
    for number in range(arguments.runs):
        seed = str(first + number)
        failed += not _run(seed, arguments.seconds, Path(arguments.directory).absolute() / seed)
    print(f"{arguments.runs - failed} of {arguments.runs} runs are right.")
    return 1 if failed else 0


def _run(seed: str, seconds: float, directory: Path) -> bool:
    """Whether no fuzzer found anything; what they leave is kept if one did."""
    for name in ("broker", "strangers", "client"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    try:
        tally = fuzz_broker(directory / "broker", seed, seconds, frames=sys.maxsize)
        print(f"{seed}  broker: {tally}", flush=True)
        tally = fuzz_strangers(directory / "strangers", seed, seconds, attempts=sys.maxsize)
        print(f"{seed}  strangers: {tally}", flush=True)
        print(f"{seed}  client: {fuzz_client(directory / 'client', seed, seconds)}", flush=True)
    except Exception as error:
        print(f"{seed}  WRONG, kept in {directory}\n{error}", flush=True)
        return False
    shutil.rmtree(directory)
    return True


if __name__ == "__main__":
    sys.exit(main())
