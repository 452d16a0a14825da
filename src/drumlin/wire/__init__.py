"""Bytes <-> protocol messages. Pure: no file, no socket, no clock."""
