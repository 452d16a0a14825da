"""What a broker measures about itself: per subject one module with a function of measures.

A new subject: write a module beside `compaction.py`, and hand its function to `Metrics.add` in
`broker/http/endpoints.py`. `exposition.py` writes them down; only it knows Prometheus.
"""
