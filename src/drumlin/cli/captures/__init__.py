"""`drumlin capture`: a database's changes in topics, how far they are, and their end."""
