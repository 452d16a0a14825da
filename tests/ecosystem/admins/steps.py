"""What came of each call: the same of two brokers, if they are alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

_WAIT_S = 30.0


class Steps:
    """Calls a client's methods one by one.

    Attributes:
        outcomes: of each step "ok", or the error.
        tried: the names of the methods.
    """

    def __init__(self, name_of: Callable[[Exception], str]) -> None:
        self._name_of = name_of
        self.outcomes: dict[str, str] = {}
        self.tried: set[str] = set()

    def __call__(
        self, step: str, act: Callable[[], Any], check: Callable[[Any], bool] | None = None
    ) -> None:
        """One step, named after its method, and after a comma what it is about.

        check: whether what comes back is right. It is asked for until it is: a broker of Apache
            Kafka hears of a change some time after the controller has answered.
        """
        assert step not in self.outcomes
        self.tried.add(step.partition(",")[0])
        deadline = time.monotonic() + _WAIT_S
        try:
            said = act()
            while check is not None and not check(said):
                if time.monotonic() > deadline:
                    self.outcomes[step] = f"not right: {said!r}"
                    return
                time.sleep(0.05)
                said = act()
        except Exception as error:
            self.outcomes[step] = self._name_of(error)
        else:
            self.outcomes[step] = "ok"


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The steps of which two brokers have not said the same."""
    assert ours.keys() == theirs.keys()
    return {step: (ours[step], theirs[step]) for step in ours if ours[step] != theirs[step]}
