"""Protobuf schemas as text: compiled to descriptors, with the files that they import.

The compiler is Google's, and runs in a process of its own, with a time limit: the text comes from
a registry. What imports what by which name is as in the registry's references.
"""

from __future__ import annotations

import functools
import importlib.util
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
_MAIN: Final = "drumlin-values.proto"
_COMPILE_TIMEOUT_S: Final = 60
#: How long to wait before the next try, of a compiler that came to no verdict.
_PAUSES_S: Final = (0.1, 1.0)
_NAME_MAX: Final = 200
_NOT_FOUND: Final = ": File not found."


@functools.lru_cache(maxsize=200)
def _compiled(schema: RegisteredSchema) -> bytes | str:
    """A serialized `FileDescriptorSet`: the schema's file is the last one, its imports come before.

    Text, if the compiler refuses it: what it said. It would say so again to each block of values.
    Nothing but a verdict is remembered: a compiler that failed may not fail again.

    Raises:
        SchemaError: it cannot be handed to the compiler.
        DecoderUnavailable: the compiler is not installed, or came to no verdict.
    """
    names = {name for name, _ in schema.references} | {_MAIN}
    for pause_s in _PAUSES_S:
        try:
            return _compile(schema, names)
        except _Failed:
            time.sleep(pause_s)
    return _compile(schema, names)


class _Failed(DecoderUnavailable):
    """The compiler has failed in a way that may pass."""


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
    """The verdict of one run of the compiler, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="drumlin-proto-") as name:
        folder, target = Path(name, "schemas"), Path(name, "descriptors")
        folder.mkdir()
        for referred, text in (*schema.references, (_MAIN, schema.text)):
            _write(folder, referred, text)
        finished = _run(folder, target)
        if finished.returncode == 0 and target.exists():
            return target.read_bytes()
    said = finished.stderr.replace(f"{folder}/", "").strip()
    if finished.returncode > 0 and _is_verdict(said, names):
        return f"not a Protobuf schema: {said.replace(f'{_MAIN}:', '')[:1000]}"
    if importlib.util.find_spec(_PACKAGE) is None or f"No module named '{_PACKAGE}" in said:
        raise DecoderUnavailable(NO_PACKAGE)
    code = finished.returncode
    how = f"was ended by signal {-code}" if code < 0 else f"failed ({code})"
    raise _Failed(f"the compiler of Protobuf schemas {how}: {said[-1000:] or 'it said nothing'}")


def _run(folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    try:
        return subprocess.run(  # noqa: S603  our own interpreter, and names that are ours
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


def _is_verdict(said: str, names: Collection[str]) -> bool:
    """Whether the compiler found fault with the text of a file: then it will do so again.

    It could not open a file if it says of one that is there that it is not.
    """
    lines = said.splitlines()
    missing = [line.removesuffix(_NOT_FOUND) for line in lines if line.endswith(_NOT_FOUND)]
    if any(name in names or _is_of_package(name) for name in missing):
        return False
    return any(line.startswith(tuple(f"{name}:" for name in names)) for line in lines)


def _is_of_package(name: str) -> bool:
    """Whether a file is one of those that come with the compiler."""
    found = importlib.util.find_spec(_PACKAGE)
    folders = [] if found is None else found.submodule_search_locations or []
    return ".." not in name and any(Path(each, "_proto", name).exists() for each in folders)


def files_of(schema: RegisteredSchema) -> FileDescriptorSet:
    """
    Raises:
        SchemaError: it cannot be compiled.
        DecoderUnavailable: nothing here can tell.
    """
    found = _compiled(schema)
    if isinstance(found, str):
        raise SchemaError(found)
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return FileDescriptorSet.FromString(found)


@functools.lru_cache(maxsize=200)
def message_names(schema: RegisteredSchema) -> Mapping[tuple[int, ...], str]:
    """The full names of a schema's messages, by their paths, as values have them before them.

    Raises:
        SchemaError: it cannot be compiled.
        DecoderUnavailable: nothing here can tell.
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
