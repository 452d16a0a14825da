"""A topic as a mapping in memory or on disk that follows new records. Uses no consumer group."""
