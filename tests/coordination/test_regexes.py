"""Regular expressions of clients: what they match, and that they cost little."""

from __future__ import annotations

import pytest

from drumlin.coordination.regexes import compile_regex, matches, takes_long
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.unlocked import turns_beside


@pytest.mark.parametrize("pattern", ["(a)(b)?", "((a)|(b))*", "(" * 900 + "a" + ")?" * 900 + "b?"])
def test_groups_are_only_parentheses(pattern: str) -> None:
    """To tell what each of 900 has matched took 20 ms for one name."""
    compiled = compile_regex(pattern)
    assert compiled.groups == 0
    assert compiled.fullmatch("ab") is not None
    assert compiled.fullmatch("abc") is None


@pytest.mark.parametrize("pattern", ["x{1000}" * 580, "(x{2,500}y){3,}" * 20, "x{9000}"])
def test_what_repeats_too_often_is_refused(pattern: str) -> None:
    """Before RE2 has unfolded it: to find that it has no room for it took it 15 ms."""
    with pytest.raises(KafkaError) as refusal:
        compile_regex(pattern)
    assert refusal.value.code is ErrorCode.invalid_regular_expression


def test_a_long_text_takes_long_with_long_patterns_only() -> None:
    """To match 32,767 bytes with 400 of anything took 140 ms."""
    text = "a" * 32_767
    short = compile_regex("a+")
    assert not takes_long(short, text)
    assert matches(short, text)
    long = compile_regex("[ab]*a[ab]{400}")
    assert matches(long, text[:1_000])
    assert not matches(long, text[:400])
    assert not takes_long(long, text[:100])
    assert takes_long(long, text)
    assert matches(long, text)


def test_others_go_on_while_a_thread_matches() -> None:
    """So it may take a second there. It awaits nothing in which another could get its turn."""
    long, text = compile_regex("[ab]*a[ab]{900}[ab]{900}"), "ab" * 8_000
    assert turns_beside(lambda: matches(long, text), 101) > 100
