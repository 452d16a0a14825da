"""`drumlin backup`: a copy of a running server's data as it is at one moment, and its way back.

The broker holds the files of the moment (`broker/http/backup.py`); this process copies them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from drumlin.cli.backups.contents import FILE_NAME, Contents, FileContents, read_contents
from drumlin.cli.backups.copying import (
    Advance,
    Shorter,
    copy_file,
    digest_of,
    new_folder,
    sync_folders,
)
from drumlin.cli.reach.broker_http import BrokerHttp, broker_on
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import AsJson, examples
from drumlin.storage.directory import directory_lock
from drumlin.storage.directory.directory_lock import DirectoryLock

app = Group(help="Back up a running server's data, check a backup, and restore it.")

Backup = Annotated[Path, Argument("BACKUP", help="The folder of a backup.")]
DataDirectory = Annotated[
    Path,
    Option("--data", "-d", metavar="DIR", help="A broker's data directory, on this machine."),
]


@app.add(
    epilog=examples(
        "drumlin backup create /backups/monday --data /var/lib/drumlin",
        "drumlin backup create /backups/monday --data /var/lib/drumlin --json",
    )
)
def create(
    to: Annotated[Path, Argument("BACKUP", help="A new folder, or an empty one.")],
    data: DataDirectory,
    as_json: AsJson = False,
) -> None:
    """Copy all data of a running server as it is at one moment: records, metadata, keys.

    The server works meanwhile. What it deletes keeps its space until the copy is complete. The
    backup has the secrets that are in the data directory, too; only its owner can read it.
    """
    broker = broker_on(data)
    if broker is None:
        raise output.Failure(f"no server runs on {data}: copy its log.dirs, as they do not change")
    with new_folder(to), _held(broker) as held:
        _unless_inside(to, held["folders"])
        files = dict(_files_in(held))
        total = sum(size for _, size in files.values())
        contents = Contents(held["taken_ms"], held["cluster_id"], {})
        with _progress("copying", total) as advance:
            for name, (source, size) in files.items():
                contents.files[name] = _copied(source, to / name, size, advance)
        with _failing_as(f"write {to}"):
            (to / FILE_NAME).write_text(contents.encode())
            sync_folders(to)
    _show(contents, to, as_json)


@app.add(epilog=examples("drumlin backup check /backups/monday"))
def check(backup: Backup, as_json: AsJson = False) -> None:
    """Read a backup, and compare all files with their digests."""
    contents = read_contents(backup)
    with _progress("checking", contents.size_bytes) as advance:
        for name, wanted in contents.files.items():
            path = backup / name
            with _failing_as(f"read {path}"):
                _compare(path, wanted, digest_of(path, wanted.size_bytes, advance))
    _show(contents, backup, as_json)


@app.add(
    epilog=examples(
        "drumlin backup restore /backups/monday --data /var/lib/drumlin",
        "drumlin server --data /var/lib/drumlin",
    )
)
def restore(
    backup: Backup,
    data: Annotated[
        Path, Option("--data", "-d", metavar="DIR", help="A new data directory, or an empty one.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make a data directory of a backup, whose files are checked meanwhile.

    The first start of a server on it reads and checks what was not flushed, as after a crash. A
    server that had several log.dirs has one then; one of several brokers may have any number of
    them.
    """
    contents = read_contents(backup)
    with new_folder(data):
        with _progress("restoring", contents.size_bytes) as advance:
            for name, wanted in contents.files.items():
                copied = _copied(backup / name, data / name, wanted.size_bytes, advance)
                _compare(backup / name, wanted, copied.sha256)
        with _failing_as(f"write {data}"):
            sync_folders(data)
    _show(contents, data, as_json)


@contextlib.contextmanager
def _held(broker: BrokerHttp) -> Iterator[dict[str, Any]]:
    """The files of a moment, locked against another backup until they are released."""
    held: dict[str, Any] = broker.post("/backup/begin", {})
    with contextlib.ExitStack() as locked:
        for folder in held["folders"]:
            lock = DirectoryLock(folder)
            with _failing_as(f"lock {folder}"):
                is_ours = lock.acquire()
            if not is_ours:  # another command was quicker, and the files are its own
                raise output.Failure("another backup is being made")
            locked.callback(lock.release)
        try:
            yield held
        finally:
            # While they are locked: the next backup's files must not be released.
            with contextlib.suppress(
                output.Failure
            ):  # the server has ended: its next start does it
                broker.post("/backup/end", {})


def _unless_inside(to: Path, folders: list[str]) -> None:
    """Raise a failure if a backup is in a log dir of its server: a folder there is a partition."""
    for log_dir in (Path(each).resolve().parent for each in folders):
        if to.resolve().is_relative_to(log_dir):
            raise output.Failure(f"{to} is in the server's log dir {log_dir}")


def _files_in(held: dict[str, Any]) -> Iterator[tuple[str, tuple[Path, int]]]:
    """The files to copy, by their paths in the backup, with their sizes at the moment."""
    sizes: dict[str, int] = held["sizes"]
    for folder in map(Path, held["folders"]):
        with _failing_as(f"list {folder}"):
            found = [each for each in sorted(folder.rglob("*")) if each.is_file()]
            for path in found:
                # Those of several brokers have places of their own.
                below = held.get("below", {}).get(str(folder), "")
                name = (PurePosixPath(below) / path.relative_to(folder)).as_posix()
                if path.name != directory_lock.FILE_NAME:
                    size = sizes.get(name)
                    yield name, (path, path.stat().st_size if size is None else size)


def _copied(source: Path, target: Path, size_bytes: int, advance: Advance) -> FileContents:
    with _failing_as(f"copy {source} to {target}"):
        return copy_file(source, target, size_bytes, advance)


def _compare(path: Path, wanted: FileContents, digest: str) -> None:
    if digest != wanted.sha256:
        raise output.Failure(f"{path} is damaged: its SHA-256 is {digest}, not {wanted.sha256}")


@contextlib.contextmanager
def _failing_as(attempt: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise output.Failure(f"could not {attempt}: {error.strerror or error}") from error
    except Shorter:
        raise output.Failure(f"could not {attempt}: the file is shorter than it was") from None


@contextlib.contextmanager
def _progress(doing: str, total: int) -> Iterator[Advance]:
    with output.progress() as progress:
        task = progress.add_task(doing, total=total, done=output.human_bytes(total))

        def advance(size: int) -> None:
            progress.advance(task, size)

        yield advance


def _show(contents: Contents, path: Path, as_json: bool) -> None:
    if as_json:
        output.show_json(
            {
                "path": str(path),
                "taken_timestamp": contents.taken_ms,
                "cluster_id": contents.cluster_id,
                "logs": contents.logs,
                "files": len(contents.files),
                "size_bytes": contents.size_bytes,
            }
        )
        return
    taken = output.human_timestamp(contents.taken_ms)
    size, logs = output.human_bytes(contents.size_bytes), output.counted(contents.logs, "log")
    print(f"{path}: {logs}, {size}, as they were at {taken}")
