"""The interface of a metadata store, and common parts of mutations in all stores."""
