"""The state of a log's producers: sequences, epochs, open transactions. Must not know the log."""
