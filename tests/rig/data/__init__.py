"""What tests send and append: requests, messages, batches, committed offsets."""
