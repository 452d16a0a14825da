"""Metadata, and what makes topics and changes them."""

from __future__ import annotations

import uuid
from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.places import KNOWN, MISSING, OTHER_MISSING, TOPICS

_MISSING_ID = uuid.UUID(int=7)
_INVALID = ("not/valid", "a-not/valid")


@each_right("metadata", "TC", [4, 10, 13])
def test_metadata(person: Person) -> None:
    for operations in (False, True):
        person.note(f"operations: {operations}")
        asked = {
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": operations,
            "include_cluster_authorized_operations": operations,
        }
        person.ask(topics=[{"name": each} for each in (*TOPICS, *_INVALID)], **asked)
        if operations:
            person.ask(topics=[], **asked)


@each_right("metadata", "T")
def test_metadata_by_id(person: Person) -> None:
    topics = [{"topic_id": each, "name": None} for each in person.place.ids]
    person.ask(topics=topics, include_topic_authorized_operations=True)


@each_right("metadata", "TC")
def test_metadata_of_all(person: Person) -> None:
    """Scripts make more topics, of which nothing is compared."""
    person.ask_about_topics(TOPICS, topics=None, include_topic_authorized_operations=True)


@each_right("metadata", "TC")
def test_metadata_that_creates(person: Person) -> None:
    names = [person.own("created"), f"other-{person.own('created')}", "__consumer_offsets"]
    names += [*_INVALID, KNOWN]
    person.ask(topics=[{"name": each} for each in names], allow_auto_topic_creation=True)


@each_right("describe_topic_partitions", "T")
def test_describe_topic_partitions(person: Person) -> None:
    named = [{"name": name} for name in sorted((*TOPICS, *_INVALID))]
    person.ask(topics=named, response_partition_limit=100, cursor=None)
    person.note("one partition")
    person.ask(topics=named, response_partition_limit=1, cursor=None)
    for name in (KNOWN, "b"):
        person.note(f"from {name}")
        cursor = {"topic_name": name, "partition_index": 0}
        person.ask(topics=named, response_partition_limit=100, cursor=cursor)


@each_right("delete_topics", "TC", [1, 6])
def test_delete_topics(person: Person) -> None:
    doomed, other = "a-doomed", "doomed"
    for name in (doomed, other):
        person.place.have_topic(name)
        person.call(person.place.topic_ids[name], f"id of {name}")
    names = [doomed, other, MISSING, OTHER_MISSING, *_INVALID]
    wanted = [{"name": name} for name in names]
    _await_deleted(person, person.ask(topic_names=names, topics=wanted, timeout=5000))


def _await_deleted(person: Person, answer: Any) -> None:
    for each in answer.responses:
        if not each.error_code:
            person.place.await_no_topic(each.name)


@each_right("delete_topics", "TC")
def test_delete_topics_by_id(person: Person) -> None:
    names = ("a-doomed", "doomed")
    for name in names:
        person.place.have_topic(name)
        person.call(person.place.topic_ids[name], f"id of {name}")
    ids = [*(person.place.topic_ids[name] for name in names), _MISSING_ID]
    wanted = [{"name": None, "topic_id": each} for each in ids]
    _await_deleted(person, person.ask(topics=wanted, timeout=5000))


@each_right("create_topics", "TC")
def test_create_topics(person: Person) -> None:
    shape = {"num_partitions": 2, "replication_factor": 1}
    topics = [{"name": name, **shape} for name in (*TOPICS, *_INVALID)]
    person.ask(topics=topics, timeout=1000, validate_only=True)
    person.note("twice")
    person.ask(topics=[*topics, topics[0]], timeout=1000, validate_only=True)


@each_right("create_partitions", "T")
def test_create_partitions(person: Person) -> None:
    for count in (1, 2, -1):
        person.note(f"{count}")
        topics = [{"name": name, "count": count, "assignments": None} for name in TOPICS]
        person.ask(topics=topics, timeout=1000, validate_only=True)
        if count == 2:
            person.ask(topics=[*topics, topics[0]], timeout=1000, validate_only=True)
