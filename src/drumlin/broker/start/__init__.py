"""The broker from start to stop: assembled from its parts, none of which imports this package."""
