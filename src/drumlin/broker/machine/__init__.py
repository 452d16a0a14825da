"""Several brokers on one machine, as one server: `--brokers N`.

`supervisor.py` is the process that is started: it owns the metadata, and serves the operator but no
clients. `worker.py` is the process of each broker, which `workers.py` starts.
"""
