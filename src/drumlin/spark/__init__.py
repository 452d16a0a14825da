"""Topics in PySpark: `format("drumlin")`, and functions beyond a data source.

PySpark imports this package in every session that looks for data sources, so it stays light.
"""

from drumlin.spark.frames.capture_query import QueryChanges, capture_query
from drumlin.spark.frames.changes import changes, read_changes
from drumlin.spark.frames.query_errors import QueryOvertaken, QueryRefused
from drumlin.spark.frames.restore import restore
from drumlin.spark.frames.snapshot import snapshot
from drumlin.spark.landing.lake_files import lake_files
from drumlin.spark.landing.land import land, landed
from drumlin.spark.landing.last_values import last_values, read_lake
from drumlin.spark.landing.run import Landing
from drumlin.spark.mapping import map_batches, map_stream
from drumlin.spark.queries.progress import progress, progress_listener
from drumlin.spark.session import configure, register
from drumlin.spark.values.dead_letters import dead_letters
from drumlin.spark.values.decode import decode_values, read_values
from drumlin.spark.values.encode import encode_values
from drumlin.spark.values.infer import infer_json_schema
from drumlin.spark.writing.foreach_batch import sink

__all__ = [
    "Landing",
    "QueryChanges",
    "QueryOvertaken",
    "QueryRefused",
    "capture_query",
    "changes",
    "configure",
    "dead_letters",
    "decode_values",
    "encode_values",
    "infer_json_schema",
    "lake_files",
    "land",
    "landed",
    "last_values",
    "map_batches",
    "map_stream",
    "progress",
    "progress_listener",
    "read_changes",
    "read_lake",
    "read_values",
    "register",
    "restore",
    "sink",
    "snapshot",
]
