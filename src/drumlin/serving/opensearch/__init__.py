"""Topics as documents of an OpenSearch."""
