"""Commands that read and write records: consume, produce, snapshot, restore."""
