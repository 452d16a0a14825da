"""Validation of produced batches before they are appended. Must not append anything itself."""
