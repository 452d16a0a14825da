"""Protobuf schemas as text: compiled to descriptors, with the files that they import.

The compiler is Google's, and runs in a process of its own, with a time limit: the text comes from
a registry. What imports what by which name is as in the registry's references.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from drumlin.client.values.errors import SchemaError
from drumlin.client.values.registry import RegisteredSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

NO_PACKAGE: Final = "Protobuf needs the package grpcio-tools: pip install grpcio-tools"
_MAIN: Final = "drumlin-values.proto"
_COMPILE_TIMEOUT_S: Final = 60
_NAME_MAX: Final = 200


@functools.lru_cache(maxsize=200)
def _compiled(schema: RegisteredSchema) -> bytes | str:
    """A serialized `FileDescriptorSet`: the schema's file is the last one, its imports come before.

    Text, if the compiler refuses it: what it said. It would say so again to each block of values.

    Raises:
        SchemaError: it cannot be handed to the compiler, or that one is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="drumlin-proto-") as name:
        folder = Path(name)
        for referred, text in (*schema.references, (_MAIN, schema.text)):
            _write(folder, referred, text)
        return _compile(folder, folder / "descriptors")


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    is_safe = path.parts and not path.is_absolute() and ".." not in path.parts and "\0" not in name
    if not is_safe or len(name) > _NAME_MAX:
        raise SchemaError(f"no schema is imported as {name!r}")
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    except (UnicodeError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise SchemaError(f"no schema is imported as {name!r}: {error}") from None


def _compile(folder: Path, target: Path) -> bytes | str:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    try:
        finished = subprocess.run(  # noqa: S603  our own interpreter, and names that are ours
            [*command, f"--descriptor_set_out={target}", _MAIN],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SchemaError(f"not compiled within {_COMPILE_TIMEOUT_S} s") from None
    if "No module named" in finished.stderr:
        raise SchemaError(NO_PACKAGE)
    if finished.returncode != 0 or not target.exists():
        said = finished.stderr.replace(f"{folder}/", "").replace(f"{_MAIN}:", "").strip()
        return f"not a Protobuf schema: {said[:1000] or finished.returncode}"
    return target.read_bytes()


def files_of(schema: RegisteredSchema) -> FileDescriptorSet:
    """
    Raises:
        SchemaError: it cannot be compiled.
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
