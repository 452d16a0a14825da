"""Backups of a server's data: commands, contents, and the copying of files."""
