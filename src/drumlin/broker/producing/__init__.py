"""One Produce request: batches checked, verified, appended and confirmed."""
