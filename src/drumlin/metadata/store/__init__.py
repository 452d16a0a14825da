"""The interface of a metadata store, and the parts that mutations of every store share."""
