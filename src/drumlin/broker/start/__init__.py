"""The broker from its start to its stop: put together here, imported by none of its parts."""
