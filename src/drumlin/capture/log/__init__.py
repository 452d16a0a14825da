"""The log's side of a capture: transactions of records, the position in them, and kept rows."""
