"""Topics: checks before one is created, topics as Metadata encodes them, and those of
coordinators."""
