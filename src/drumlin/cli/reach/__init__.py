"""Access to a cluster, to a broker's HTTP, and to a data directory on which no broker runs."""
