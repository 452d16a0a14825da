"""One cleaning of one log, from its view to the new checkpoint. Blocks: it runs in a thread."""
