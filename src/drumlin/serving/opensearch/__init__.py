"""Topics as documents in OpenSearch."""
