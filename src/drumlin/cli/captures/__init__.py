"""`drumlin capture`: capture a database's changes in topics, show progress, remove a capture."""
