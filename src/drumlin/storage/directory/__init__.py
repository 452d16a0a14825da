"""One of the `log.dirs`: its owner, its id, its checkpoints, whether it works. Knows no log."""
