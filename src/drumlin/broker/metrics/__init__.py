"""What a broker measures of itself, one module a subject, each a function that yields measures.

A new subject: write a module beside `compaction.py`, and hand its function to `Metrics.add` in
`broker/endpoints.py`. `exposition.py` writes them down; only it knows Prometheus.
"""
