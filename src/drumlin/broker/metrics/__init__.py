"""The metrics of a broker: one module for each subject, with a function that yields its measures.

To add a subject, write a module beside `compaction.py`, and pass its function to `Metrics.add` in
`broker/http/endpoints.py`. `exposition.py` formats the measures; only it knows Prometheus.
"""
