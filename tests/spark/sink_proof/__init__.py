"""The sink under proof: real Spark and real brokers, both killed, and every row compared."""
