"""The protocol of the sink that writes every batch exactly once.

For writers, in `entry` (which loads a client; this package does not):

    in a task    written = begin_task(client, TaskIdentity(...), SinkSettings(...))
                 AlreadyDecided: write nothing; message = written.counted(rows, checksum)
                 TaskWrite: written.transaction takes rows, from the first one on;
                 message = written.finish(rows, checksum), or written.abort() if anything fails
    on the driver
                 commit_batch(client, settings, messages, batch_id)
                 abort_batch(client, settings, messages, batch_id), None for tasks that failed
                 abort_run(client, settings, identity) after a failed job, for killed tasks

The protocol itself is in `task`, `driver` and `aborting`: generators that yield `requests`. They
must not use a client or a clock, so that tests run the very same code on a model of a cluster.
docs/exactly-once-sink.md explains why the protocol is correct.
"""
