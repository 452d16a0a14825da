"""The protocol of the sink that writes every batch exactly once.

For writers, in `entry` (which loads a client; this package does not):

    in a task    written = begin_task(client, TaskIdentity(...), SinkSettings(...))
                 AlreadyDecided: return written.message and write nothing
                 TaskWrite: written.transaction takes rows, from the first one on;
                 message = written.finish(rows, checksum), or written.abort() if anything fails
    afterwards   commit_batch(client, settings, messages, batch_id)
                 abort_batch(client, settings, messages, batch_id), None for tasks that failed
                 abort_run(client, settings, identity) after a failed job: what killed tasks left

The protocol itself is in `task`, `driver` and `aborting`: generators that yield `requests`. They
know no client and no clock, so that tests run the very same code on a model of a cluster.
Why it is right is told in docs/exactly-once-sink.md.
"""
