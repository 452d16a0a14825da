"""Forms of records with schemas or envelopes: Avro, and Debezium's. Knows no database's types."""
