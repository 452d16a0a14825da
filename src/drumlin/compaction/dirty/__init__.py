"""The cleanable part of a log, and the progress of interrupted rounds. Never changes a log."""
