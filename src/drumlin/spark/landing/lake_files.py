"""The valid files of a lake, for any reader of Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.urls import is_s3


class Visible(NamedTuple):
    """The content of a lake at this moment."""

    #: The lake's folder, which contains `paths`.
    base: str
    #: Folders of loads; in S3, which has no folders, files.
    paths: list[str]
    #: Whether values are typed columns; later loads may have more of them.
    is_typed: bool


def lake_files(folder: str, *, s3: Mapping[str, str] | None = None) -> list[str]:
    """The files that together have every row of a lake once, even while small files are merged.

    For readers that take a list of files, as DuckDB and pyarrow do.

    Args:
        folder: the folder of a lake that `land` has written: a path, `hdfs://…` or `s3://…`.
        s3: as for `land`.

    Returns:
        Paths or URLs of Parquet files.

    Raises:
        LandingRefused: loads are missing.
        StoreUnavailable: HDFS or S3 cannot be reached.
    """
    from pyarrow import fs

    from drumlin.spark.landing.targets.parquet import open_lake

    found = visible(folder, S3Account.of(s3 or {}))
    if is_s3(folder):
        return found.paths
    files, path = open_lake(folder)
    before = found.base.removesuffix(path)
    return [
        f"{before}{info.path}"
        for load in found.paths
        for info in files.get_file_info(fs.FileSelector(load.removeprefix(before), recursive=True))
        if info.extension == "parquet"
    ]


def visible(folder: str, account: S3Account) -> Visible:
    """
    Raises:
        LandingRefused: loads are missing.
    """
    if is_s3(folder):
        from drumlin.spark.landing.targets.s3_lake.folder import S3Folder
        from drumlin.spark.landing.targets.s3_lake.loads import visible_files

        base = folder.rstrip("/")
        names, has_columns = visible_files(S3Folder(base, account))
        return Visible(base, [f"{base}/{name}" for name in names], has_columns)
    from drumlin.spark.landing.targets.hdfs import check_answers, naming_hdfs
    from drumlin.spark.landing.targets.lake_loads import visible_loads
    from drumlin.spark.landing.targets.parquet import is_typed, open_lake

    files, path = open_lake(folder)
    check_answers(files, folder)
    with naming_hdfs(folder):
        loads = visible_loads(files, path)
        has_columns = bool(loads) and is_typed(files, loads[-1])
    before = folder.removesuffix(path) if folder.startswith("hdfs:") else ""
    return Visible(f"{before}{path}", [f"{before}{each}" for each in loads], has_columns)
