// Exactly-once sinks of Spark: the last batch that each has decided, and its open transactions.

import { alert, figures, h } from "../../dom.js";
import { latestRate, note } from "../../history.js";
import { List } from "../../list.js";
import { age, count, duration, rate, time } from "../../words.js";

const ABOUT = "Decisions are read from the topic drumlin-sinks, and from the groups of sinks. How far the sources of a query are ahead of "
  + "its last batch, and whether it runs, only Spark knows: no batch comes while there are no new rows.";

export async function sinks(context, told) {
  const list = context.keep(new List({ label: "Sinks", nothing: "no sinks", sortedBy: 0, columns: [
    { title: "Sink", width: "minmax(0,3fr)", text: (row) => row.sink, href: (row) => `#/sink/${encodeURIComponent(row.sink)}` },
    { title: "State", width: "7rem", text: (row) => row.state, isBad: (row) => row.error !== null },
    { title: "Batch", width: "6rem", isNumber: true, text: (row) => count(row.batch), by: (row) => row.batch },
    { title: "Rows", width: "7rem", isNumber: true, text: (row) => count(row.rows), by: (row) => row.rows },
    { title: "Written", width: "9rem", isNumber: true, text: (row) => age(row.written_ms), by: (row) => row.written_ms },
    { title: "Batches/min", width: "8rem", isNumber: true, text: (row) => rate(moves(row)), by: moves },
    { title: "Open", width: "5rem", isNumber: true, text: (row) => count(row.open_count), by: (row) => row.open_count },
    { title: "Open for", width: "7rem", isNumber: true, text: (row) => duration(since(row.open_since_ms)), by: (row) => row.open_since_ms },
    { title: "Topics", text: (row) => row.topics.join(", ") },
  ] }));
  const look = async (options) => {
    const found = await context.get("sinks", {}, options);
    for (const row of found.sinks) note(`sink ${row.sink}`, row.batch);
    list.set(found.sinks);
    told.textContent = [`${count(found.sinks.length)} sinks`, found.not_shown ? `${count(found.not_shown)} more are not shown` : "",
      found.error ?? "", found.is_whole || found.error ? "" : "the oldest decisions were not read"].filter(Boolean).join("; ");
  };
  await look();
  return { list, look, about: ABOUT };
}

const moves = (row) => {
  const perSecond = latestRate(`sink ${row.sink}`);
  return perSecond === null ? null : perSecond * 60;
};
const since = (ms) => (ms === null ? null : Math.max(Date.now() - ms, 0));

export async function sink(context) {
  const { main, get, parts: [name] } = context;
  const summary = h("div", {});
  const topics = h("p", {});
  const ends = h("div", {});
  const list = context.keep(new List({ label: "Open transactions", nothing: "no open transactions", columns: [
    { title: "Transactional id", width: "minmax(0,2fr)", text: (row) => row.transactional_id },
    { title: "Decided", width: "6rem", text: (row) => (row.is_winner ? "to commit" : "") },
    { title: "Open for", width: "7rem", isNumber: true, text: (row) => duration(since(row.since_ms)), by: (row) => row.since_ms,
      isBad: (row) => since(row.since_ms) > row.timeout_ms / 2 },
    { title: "Timeout", width: "7rem", isNumber: true, text: (row) => duration(row.timeout_ms), by: (row) => row.timeout_ms },
    { title: "In", width: "minmax(0,2fr)", text: (row) => row.partitions.join(", ") },
  ] }));
  const look = async (options) => {
    const found = await get("sink", { sink: name }, options);
    summary.replaceChildren(found.error ? alert(found.error) : "", figures([
      ["State", found.state, found.error !== null], ["Batch", count(found.batch)], ["Rows of it", count(found.rows)],
      ["Decided", time(found.decided_ms)], ["Written", age(found.written_ms)], ["Not committed yet", count(found.winners)],
      ["Repairs", count(found.repairs)], ["Query", found.query || "–"], ["Run", found.run || "–"],
    ]));
    topics.replaceChildren(...links(found));
    ends.replaceChildren(...(found.ends ? [h("h2", {}, "Where its sources were at the end of this batch"),
      h("pre", { tabindex: "0", "aria-label": "End offsets of the sources" }, found.ends)] : []));
    list.set(found.transactions);
  };
  await look();
  context.title(name);
  context.live(5, look);
  main.replaceChildren(h("h1", {}, name), summary, topics, h("h2", {}, "Open transactions"), list.element, ends,
    h("p", { class: "quiet" }, ABOUT));
}

function links(found) {
  const link = (kind, each) => h("a", { href: `#/${kind}/${encodeURIComponent(each)}` }, each);
  const written = found.topics.flatMap((each) => [" ", link("topic", each)]);
  return ["Decisions: ", link("topic", found.decision_topic),
    ...(found.group ? ["; group ", link("group", found.group)] : []),
    ...(written.length ? ["; topics:", ...written] : ["; its topics are not recorded"])];
}
