"""Whatever text a client or a file has: parsed, or refused as it should be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drumlin.config.config_error import ConfigError
from drumlin.config.keys import broker_keys, group_keys, topic_keys
from drumlin.config.properties import parse_properties
from drumlin.config.values import format_value

KEYS = [*broker_keys().values(), *topic_keys().values(), *group_keys().values()]
NUMBERS = st.one_of(st.integers().map(str), st.floats().map(repr), st.just("9" * 5000))
TEXTS = st.one_of(st.text(max_size=30), NUMBERS)


@given(st.sampled_from(KEYS), TEXTS)
def test_a_value_parses_or_is_refused(key: object, text: str) -> None:
    assert key in KEYS
    try:
        value = key.parse(text)  # type: ignore[attr-defined]
    except ConfigError as error:
        assert str(error)
        assert "\n" not in str(error) or "\n" in text
        return
    written = format_value(value)
    assert written is not None
    assert format_value(key.parse(written)) == written  # type: ignore[attr-defined]


def escape(text: str) -> str:
    return "".join(f"\\u{ord(each):04x}" for each in text)


BASIC = st.text(st.characters(max_codepoint=0xD7FF), min_size=1, max_size=10)


@given(st.dictionaries(BASIC, BASIC))
def test_properties_written_as_escapes_are_read_back(properties: dict[str, str]) -> None:
    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in properties.items())
    assert parse_properties(text) == properties


@given(st.text(max_size=200))
def test_any_properties_file_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_properties(text), dict)
    except ValueError:
        assert "\\u" in text
