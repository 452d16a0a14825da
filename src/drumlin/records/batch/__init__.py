"""The record batch as bytes: header, CRC, varints. Must not read records."""
