"""Topics: checks before one is created, how Metadata tells them, and those of coordinators."""
