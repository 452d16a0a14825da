"""The measures of a broker: one module for each subject, with a function that yields them.

A new subject: write a module beside `compaction.py`, and hand its function to `Metrics.add` in
`broker/http/endpoints.py`. `exposition.py` formats them; only it knows Prometheus.
"""
