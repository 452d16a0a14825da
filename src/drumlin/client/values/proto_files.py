"""Protobuf schemas as text: compiled to descriptors, with the files that they import.

The compiler is Google's, and runs in a process of its own, with a time limit: the text comes from
a registry. What imports what by which name is as in the registry's references.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from drumlin.client.values.errors import SchemaError
from drumlin.client.values.registry import RegisteredSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

NO_PACKAGE: Final = "Protobuf needs the package grpcio-tools: pip install 'drumlin[schemas]'"
_MAIN: Final = "drumlin-values.proto"
_COMPILE_TIMEOUT_S: Final = 60


@functools.lru_cache(maxsize=200)
def compiled(schema: RegisteredSchema) -> bytes:
    """A serialized `FileDescriptorSet`: the schema's file is the last one, its imports come before.

    Raises:
        SchemaError: the compiler refuses it, or is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="drumlin-proto-") as name:
        folder = Path(name)
        for referred, text in (*schema.references, (_MAIN, schema.text)):
            path = folder / _safe(referred)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        target = folder / "descriptors"
        _compile(folder, target)
        return target.read_bytes()


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise SchemaError(f"no schema is imported as {name!r}")
    return path


def _compile(folder: Path, target: Path) -> None:
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
        said = finished.stderr.strip().replace(f"{_MAIN}:", "") or f"code {finished.returncode}"
        raise SchemaError(f"not a Protobuf schema: {said[:1000]}")


def files_of(schema: RegisteredSchema) -> FileDescriptorSet:
    """
    Raises:
        SchemaError: it cannot be compiled.
    """
    text = compiled(schema)
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return FileDescriptorSet.FromString(text)


@functools.lru_cache(maxsize=1000)
def message_at(schema: RegisteredSchema, path: tuple[int, ...]) -> str:
    """The full name of the message at a path of indexes, as values have it before them.

    Raises:
        SchemaError: there is none.
    """
    file = files_of(schema).file[-1]
    messages = file.message_type
    names = [file.package] if file.package else []
    for index in path:
        if index >= len(messages):
            raise SchemaError(f"the schema has no message at {list(path)}")
        message: DescriptorProto = messages[index]
        names.append(message.name)
        messages = message.nested_type
    return ".".join(names)
