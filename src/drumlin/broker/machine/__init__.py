"""Several brokers on one machine, as one server: `--brokers N`.

`supervisor.py` is the process that is started: it owns the metadata, serves the operator, and no
client. `worker.py` is the process of each broker, as `workers.py` starts it.
"""
