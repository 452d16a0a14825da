"""`sasl.jaas.config`: what Java reads is read likewise, and no error shows any of it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.peer.security.jaas import parse_jaas
from drumlin.peer.security.settings import SecurityOptionError
from records.strategies import QUICK

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (
            f"{PLAIN} REQUIRED\n  username='a'\n  password='b' ;\n",
            {"username": "a", "password": "b"},
        ),
        (f'{PLAIN} required username=a password="";', {"username": "a", "password": ""}),
        (f'{PLAIN} required password="a\\"b\\\\c";', {"password": 'a"b\\c'}),
        (f'{PLAIN} required password="\\t\\101\\n";', {"password": "\tA\n"}),
        (f"{PLAIN} required password='a\"b';", {"password": 'a"b'}),
        (f'{PLAIN} required password="a;b=c //d /*e*/";', {"password": "a;b=c //d /*e*/"}),
        (f"// a comment\n{PLAIN} required /* another\n */ a=1.5;", {"a": "1.5"}),
        (f"kafkashaded.{PLAIN} required;", {}),
        (f'{PLAIN} required serviceName = "kafka";', {"serviceName": "kafka"}),
    ],
)
def test_a_login_module_is_read_as_java_reads_it(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no login module"),
        (";", "no login module"),
        ('"hunter2";', "class of a login module"),
        ("hunter2 required;", "class of a login module"),
        (f'{PLAIN} username="hunter2";', "'required'"),
        (f'{PLAIN} required password="hunter2"', "semicolon"),
        (f'{PLAIN} required password="hunter2;', "quote"),
        (f'{PLAIN} required password="hun\nter2";', "quote"),
        (f"{PLAIN} required password=hunter2 hunter2;", "option 2"),
        (f"{PLAIN} required password=;", "option 1"),
        (f"{PLAIN} required a=hunter2 a=hunter2;", "option 2"),
        (f"{PLAIN} required; {PLAIN} required;", "one is allowed"),
    ],
)
def test_what_is_written_otherwise_is_refused_without_showing_it(text: str, why: str) -> None:
    with pytest.raises(SecurityOptionError, match=why) as caught:
        parse_jaas(text)
    assert "hunter2" not in str(caught.value)


@QUICK
@given(st.text(st.characters(exclude_characters="\r\n")))
def test_any_password_survives_its_quotes(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'{PLAIN} required password="{quoted}";').options == {"password": password}


@QUICK
@given(st.text(alphabet="aZ.\\\"'=;/* \n0", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(SecurityOptionError):
        parse_jaas(f"{PLAIN} required {text}")
