"""Forms of records with schemas or envelopes: Avro and Debezium. Independent of the database."""
