"""A log's state of its producers: sequences, epochs, open transactions. Does not know the log."""
