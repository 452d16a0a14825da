"""One of the `log.dirs`: its owner, id, checkpoints and health. Knows no log."""
