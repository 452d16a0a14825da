"""The columnar client: read a log into Arrow, append Arrow to a log, write records one by one."""
