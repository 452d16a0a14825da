"""The group consumer: Arrow batches for the members of a consumer group."""

from drumlin.client.consumer.consumer import Consumer, topic_of

__all__ = ["Consumer", "topic_of"]
