"""Commands that act on several names: each name is tried and reported.

Owns the wording of broker errors. Prints; contacts no broker itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drumlin.cli.terminal import output
from drumlin.peer.rights import Denied
from drumlin.wire.error_codes import KafkaError


def for_each(
    kind: str,
    names: Sequence[str],
    act: Callable[[str], bool],
    *,
    done: str,
    as_json: bool,
    otherwise: str = "unchanged",
) -> None:
    """Call `act` for every name, and report each outcome.

    `act` returns whether it changed something; `done` and `otherwise` are the words for that.
    A refusal is reported, and the remaining names are still tried.

    Raises:
        output.Failure: the broker refused at least one.
    """
    rows: list[dict[str, object]] = []
    refusals = []
    try:
        for name in names:
            try:
                is_done = act(name)
            except KafkaError as error:
                refusals.append(sentence(error))
                continue
            rows.append({kind: name, done: is_done})
            if not as_json:
                print(output.printable(f"{name}: {done if is_done else otherwise}"), flush=True)
    finally:
        if as_json and rows:  # done, even if others failed
            output.show_json(rows)
    fail(refusals)


def fail(refusals: Sequence[str]) -> None:
    """Report the refusals, if there are any.

    Raises:
        output.Failure: the last refusal.
    """
    for refusal in refusals[:-1]:
        output.note(f"drumlin: {refusal}")
    if refusals:
        raise output.Failure(refusals[-1])


def sentence(error: KafkaError) -> str:
    """A broker's error in one line."""
    if isinstance(error, Denied):
        return str(error)
    reason = error.code.name.replace("_", " ")
    text = f"{error.message.rstrip('.')} ({reason})" if error.message else reason
    return with_notes(text, error)


def with_notes(text: str, error: Exception) -> str:
    """The sentence about an error, with the error's notes, such as the steps that were done."""
    return "; ".join([text, *getattr(error, "__notes__", ())])
