"""The ways to a cluster, to a broker's HTTP, and into a data directory on which no broker runs."""
