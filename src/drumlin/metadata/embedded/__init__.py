"""The store of one broker, or of the brokers of one machine: an SQLite file."""
