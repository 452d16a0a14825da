"""Compiles Protobuf schemas, with the files that they import, to descriptors.

The compiler is Google's, and runs in a process of its own with a timeout, as the text comes from a
registry. Imports are resolved by the registry's references.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from drumlin.client.values.errors import DecoderUnavailable, SchemaError
from drumlin.client.values.registry import RegisteredSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

NO_PACKAGE: Final = "Protobuf needs the package grpcio-tools: pip install grpcio-tools"
_PACKAGE: Final = "grpc_tools"
#: Lines of the compiler's log, which are not part of its verdict.
_LOGGED: Final = re.compile(r"WARNING: All log messages|[IWEF]\d{4} ")
_MAIN: Final = "drumlin-values.proto"
_COMPILE_TIMEOUT_S: Final = 60
#: The pauses before retries of a compiler that failed without a verdict on the schema.
_PAUSES_S: Final = (0.1, 1.0)
_NAME_MAX: Final = 200
_NOT_FOUND: Final = ": File not found."


@functools.lru_cache(maxsize=200)
def _compiled(schema: RegisteredSchema) -> bytes | str:
    """A serialized `FileDescriptorSet`: the schema's file is the last one, after its imports.

    If the compiler refuses the schema, returns its message, which is cached as well: the compiler
    must not run for each block of values. Failures of the compiler, which may be temporary, are not
    cached.

    Raises:
        SchemaError: the schema cannot be handed to the compiler.
        DecoderUnavailable: the compiler is not installed, or has failed.
    """
    names = {name for name, _ in schema.references} | {_MAIN}
    for pause_s in _PAUSES_S:
        try:
            return _compile(schema, names)
        except _Failed:
            time.sleep(pause_s)
    return _compile(schema, names)


class _Failed(DecoderUnavailable):
    """The compiler has failed, possibly temporarily."""


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    is_safe = path.parts and not path.is_absolute() and ".." not in path.parts and "\0" not in name
    if not is_safe or len(name.encode("utf-8", "replace")) > _NAME_MAX:
        raise SchemaError(f"no schema is imported as {name!r}")
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    except (UnicodeError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise SchemaError(f"no schema is imported as {name!r}: {error}") from None


def _compile(schema: RegisteredSchema, names: Collection[str]) -> bytes | str:
    """Run the compiler once, in a folder of its own; returns its verdict."""
    with tempfile.TemporaryDirectory(prefix="drumlin-proto-") as name:
        folder, target = Path(name, "schemas"), Path(name, "descriptors")
        folder.mkdir()
        for referred, text in (*schema.references, (_MAIN, schema.text)):
            _write(folder, referred, text)
        finished = _run(folder, target)
        if finished.returncode == 0 and target.exists():
            return target.read_bytes()
    output = finished.stderr.replace(f"{folder}/", "").strip()
    if finished.returncode > 0 and _is_verdict(output, names):
        told = "; ".join(each for each in output.splitlines() if not _LOGGED.match(each))
        return f"not a Protobuf schema: {told.replace(f'{_MAIN}:', '')[:1000]}"
    if importlib.util.find_spec(_PACKAGE) is None or f"No module named '{_PACKAGE}" in output:
        raise DecoderUnavailable(NO_PACKAGE)
    code = finished.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"failed ({code})"
    raise _Failed(f"the compiler of Protobuf schemas {how}: {output[-1000:] or 'no output'}")


def _run(folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    try:
        return subprocess.run(  # noqa: S603  our own interpreter and file names
            [*command, f"--descriptor_set_out={target}", _MAIN],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DecoderUnavailable(
            f"the compiler of Protobuf schemas took more than {_COMPILE_TIMEOUT_S} s"
        ) from None


def _is_verdict(output: str, names: Collection[str]) -> bool:
    """Whether the compiler found a fault in the text of a file, which is permanent.

    If it reports an existing file as missing, it could not open the file: that is not a verdict.
    """
    lines = output.splitlines()
    missing = [line.removesuffix(_NOT_FOUND) for line in lines if line.endswith(_NOT_FOUND)]
    if any(name in names or _is_of_package(name) for name in missing):
        return False
    return any(line.startswith(tuple(f"{name}:" for name in names)) for line in lines)


def _is_of_package(name: str) -> bool:
    """Whether a file is bundled with the compiler."""
    found = importlib.util.find_spec(_PACKAGE)
    folders = [] if found is None else found.submodule_search_locations or []
    return ".." not in name and any(Path(each, "_proto", name).exists() for each in folders)


def files_of(schema: RegisteredSchema) -> FileDescriptorSet:
    """The descriptors of a schema and its imports.

    Raises:
        SchemaError: the schema cannot be compiled.
        DecoderUnavailable: the compiler is not installed, or has failed.
    """
    found = _compiled(schema)
    if isinstance(found, str):
        raise SchemaError(found)
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return FileDescriptorSet.FromString(found)


@functools.lru_cache(maxsize=200)
def message_names(schema: RegisteredSchema) -> Mapping[tuple[int, ...], str]:
    """The full names of a schema's messages, by the paths that precede values.

    Raises:
        SchemaError: the schema cannot be compiled.
        DecoderUnavailable: the compiler is not installed, or has failed.
    """
    file = files_of(schema).file[-1]
    return dict(_named(file.message_type, (), (file.package,) if file.package else ()))


def _named(
    messages: Iterable[DescriptorProto], path: tuple[int, ...], names: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], str]]:
    for index, message in enumerate(messages):
        own = (*path, index), (*names, message.name)
        yield own[0], ".".join(own[1])
        yield from _named(message.nested_type, *own)
