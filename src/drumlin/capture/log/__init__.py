"""The side of the log: records in transactions, the capture's position among them, kept rows."""
