"""One cleaning of one log, from looking at it to the new checkpoint. Blocking, in a thread."""
