"""A topic as a mapping in memory or on disk, that follows what is written. Has no group."""
