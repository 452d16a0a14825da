"""`drumlin capture`: capture a database's changes in topics; show, pause or remove captures."""
