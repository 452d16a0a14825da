"""The compiler of Protobuf schemas in trouble: that says nothing about schemas and records."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from drumlin import DecoderUnavailable, SchemaError, ValueDecoder
from drumlin.client.values.framing import header
from drumlin.client.values.protobuf.proto_files import files_of
from drumlin.client.values.registry import RegisteredSchema
from rig.servers.schema_registry import running_registry

FIRST = 'syntax = "proto3"; message M { int32 a = 1; }'
SECOND = 'syntax = "proto3"; message M { int32 a = 1; string b = 2; }'
IMPORTING = 'syntax = "proto3"; import "google/protobuf/struct.proto"; message M {}'


_PYTHON = sys.executable


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What runs the compiler: ours, unless it is written anew."""
    program = tmp_path / "python"
    run(program, "")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("drumlin.client.values.protobuf.proto_files._PAUSES_S", (0.0, 0.0))
    return program


def run(program: Path, first: str) -> None:
    """Have the program run a line of the shell first."""
    program.write_text(f'#!/bin/sh\n{first}\nexec "{_PYTHON}" "$@"\n')


def test_records_are_good_whatever_has_become_of_the_compiler_once(python: Path) -> None:
    with running_registry() as rig:
        decoder = ValueDecoder(FIRST, format="protobuf", registry=rig.url)
        value = header(rig.add("m", SECOND, "PROTOBUF")) + b"\0\x08\x05"
        run(python, f"mkdir {python.parent}/once && kill -9 $$")
        found = decoder.decode(pa.array([value], pa.binary()))
    assert (python.parent / "once").exists()
    assert (found.values.to_pylist(), found.reasons) == ([{"a": 5}], {})


@pytest.mark.parametrize(
    "fault",
    [
        "kill -9 $$",
        "exit 1",
        "exit 0",
        "echo MemoryError >&2; exit 1",
        "echo drumlin-values.proto: File not found. >&2; exit 1",
        (
            "echo google/protobuf/struct.proto: File not found. >&2; "
            "echo drumlin-values.proto:1:9: Import was not found or had errors. >&2; exit 1"
        ),
    ],
)
def test_a_failure_is_no_verdict_and_is_not_remembered(python: Path, fault: str) -> None:
    schema = RegisteredSchema(1, "PROTOBUF", f"{IMPORTING} // {fault}")
    run(python, fault)
    with pytest.raises(DecoderUnavailable, match=r"was killed by signal 9|failed \([01]\)"):
        files_of(schema)
    run(python, "")
    assert files_of(schema).file[-1].message_type[0].name == "M"


def test_what_the_compiler_says_of_a_schema_is_remembered(python: Path) -> None:
    missing = 'syntax = "proto3"; import "not/there.proto"; message M {}'
    for text in (FIRST.replace(";", ""), missing):
        schema = RegisteredSchema(2, "PROTOBUF", text)
        for _ in range(2):
            with pytest.raises(SchemaError, match="not a Protobuf schema"):
                files_of(schema)
            run(python, "exit 1")
        run(python, "")


def test_a_package_that_is_not_installed(python: Path) -> None:
    run(python, "echo \"No module named 'grpc_tools'\" >&2; exit 1")
    with pytest.raises(DecoderUnavailable, match="needs the package grpcio-tools"):
        files_of(RegisteredSchema(3, "PROTOBUF", IMPORTING))
