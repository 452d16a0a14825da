"""Counts words, with Pathway: a stream of changes from one topic to another.

    pathway_job.py BOOTSTRAP NAME

Topics NAME-in and NAME-out are there. Runs until it is killed.
"""

import sys

import pathway as pw

from login import librdkafkas

address, name = sys.argv[1:]


class Word(pw.Schema):
    word: str


common = {"bootstrap.servers": address, **librdkafkas()}
settings = {**common, "group.id": name, "auto.offset.reset": "earliest"}
words = pw.io.kafka.read(
    settings, topic=f"{name}-in", format="json", schema=Word, autocommit_duration_ms=200
)
counts = words.groupby(words.word).reduce(words.word, count=pw.reducers.count())
pw.io.kafka.write(counts, common, f"{name}-out", format="json")
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
