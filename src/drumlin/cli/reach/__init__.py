"""What commands reach: a cluster, a broker's HTTP, a data directory on which no broker runs."""
