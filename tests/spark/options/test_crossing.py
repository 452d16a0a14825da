"""Options and plans on their way to executors, which may run another version of drumlin."""

from __future__ import annotations

import pickle
import pickletools

import pytest

from drumlin.spark.options import portable
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.portable import VersionMismatch
from drumlin.spark.options.ranges import PlannedRange

OPTIONS = SourceOptions.parse(
    {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "subscribe": "flights",
        "startingoffsets": '{"flights":"earliest"}',
        "minpartitions": "7",
    }
)
RANGE = PlannedRange("flights", 3, 10, 20)


@pytest.mark.parametrize("value", [OPTIONS, RANGE])
def test_what_crosses_arrives_as_it_was(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("value", [OPTIONS, RANGE])
def test_another_version_is_refused(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(value)
    monkeypatch.setattr(portable, "__version__", "9.9")
    with pytest.raises(
        VersionMismatch, match=r"the driver runs drumlin \d.* executor drumlin 9\.9"
    ):
        pickle.loads(sent)


def test_fields_go_by_their_names() -> None:
    # Then a version with other fields could not be misread even if its number were the same.
    strings = {each for _, each, _ in pickletools.genops(pickle.dumps(RANGE))}
    assert {"topic", "partition", "start_offset", "end_offset"} <= strings
