"""Several replicas on real logs, with what happens to them at random."""
