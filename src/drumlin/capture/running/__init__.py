"""A capture at work: where it begins, its snapshot, its stream, and what follows an error."""
