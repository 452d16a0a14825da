"""Counts words, with faust: records are repartitioned by word, its table is in a changelog topic.

    APP_BROKER=BOOTSTRAP APP_NAME=NAME APP_GUARANTEE=... APP_DATA=FOLDER faust_app.py worker

Topics NAME-in and NAME-out are there. Runs until it is killed.
"""

import os

import faust

import login

name = os.environ["APP_NAME"]
app = faust.App(
    name,
    broker=f"kafka://{os.environ['APP_BROKER']}",
    store="memory://",
    topic_partitions=3,
    processing_guarantee=os.environ["APP_GUARANTEE"].replace("-", "_"),
    datadir=os.environ["APP_DATA"],
    web_enabled=False,
    broker_session_timeout=15,
    broker_request_timeout=60,
    broker_credentials=login.told
    and faust.SASLCredentials(
        username=login.told["user"],
        password=login.told["password"],
        ssl_context=login.tls(),
        mechanism="SCRAM-SHA-512",
    ),
)


class Word(faust.Record, serializer="json"):
    word: str


words = app.topic(f"{name}-in", value_type=Word, partitions=3)
counted = app.topic(f"{name}-out", partitions=1)
counts = app.Table("counts", default=int, partitions=3)


@app.agent(words)
async def count(stream):
    async for each in stream.group_by(Word.word):
        counts[each.word] += 1
        await counted.send(value={"word": each.word, "count": counts[each.word]})


if __name__ == "__main__":
    app.main()
