"""The metadata store of the brokers of one machine: an SQLite file and its controller."""
