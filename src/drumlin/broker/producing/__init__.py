"""The steps of a Produce request: checking, verifying, appending and confirming its batches."""
