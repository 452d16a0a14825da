// Keyed states of processes: the position in the input that each changelog has.

import { alert, figures, h } from "../../dom.js";
import { latestRate, note, noted } from "../../history.js";
import { Chart } from "../../chart.js";
import { List } from "../../list.js";
import { age, count, rate } from "../../words.js";

const ABOUT = "Each commit of drumlin.state writes the position in its input beside the changes, so position and state are one. Changelogs of other "
  + "programs, such as Kafka Streams, have no position in them: look at the lag of their group. Standbys, and what a process has on its disk, are "
  + "not in the cluster.";

export async function states(context, told) {
  const list = context.keep(new List({ label: "States", nothing: "no changelogs", sortedBy: 0, columns: [
    { title: "State", text: (row) => row.state, href: (row) => `#/state/${encodeURIComponent(row.topic)}` },
    { title: "Group", text: (row) => row.group ?? "not of drumlin.state" },
    { title: "Members", width: "7rem", text: (row) => row.group_state ?? "–" },
    { title: "Inputs", text: (row) => row.inputs.join(", ") },
    { title: "Partitions", width: "7rem", isNumber: true, text: (row) => count(row.partitions), by: (row) => row.partitions },
    { title: "Offsets", width: "7rem", isNumber: true, text: (row) => count(row.offsets), by: (row) => row.offsets },
    { title: "Lag", width: "7rem", isNumber: true, text: (row) => count(row.lag), by: (row) => row.lag },
    { title: "Committed", width: "8rem", isNumber: true, text: (row) => age(row.committed_ms), by: (row) => row.committed_ms },
  ] }));
  const look = async (options) => {
    const found = await context.get("states", {}, options);
    for (const row of found.states) note(`state ${row.topic}`, row.lag);
    list.set(found.states);
    told.textContent = `${count(found.states.length)} changelogs${found.not_shown ? `; ${count(found.not_shown)} more are not shown` : ""}`;
  };
  await look();
  return { list, look, about: ABOUT };
}

export async function state(context) {
  const { main, get, parts: [topic] } = context;
  const summary = h("div", {});
  const told = h("p", {});
  const chart = new Chart("Lag");
  const list = context.keep(new List({ label: "Partitions of the state", nothing: "no partitions", columns: [
    { title: "Partition", width: "6rem", isNumber: true, text: (row) => row.partition, by: (row) => row.partition },
    { title: "Input", text: (row) => row.input ?? "no position", href: (row) => (row.input ? `#/topic/${encodeURIComponent(row.input)}` : null) },
    { title: "Offset", isNumber: true, text: (row) => count(row.offset), by: (row) => row.offset },
    { title: "Group's offset", isNumber: true, text: (row) => count(row.group_offset), by: (row) => row.group_offset,
      isBad: (row) => row.group_offset !== null && row.group_offset !== row.offset },
    { title: "End offset", isNumber: true, text: (row) => count(row.end_offset), by: (row) => row.end_offset },
    { title: "Lag", isNumber: true, text: (row) => count(row.lag), by: (row) => row.lag },
    { title: "Offsets/s", isNumber: true, text: (row) => rate(latestRate(place(row))), by: (row) => latestRate(place(row)) },
    { title: "Committed", isNumber: true, text: (row) => age(row.committed_ms), by: (row) => row.committed_ms },
  ] }));
  const place = (row) => `state ${topic} ${row.partition} ${row.input}`;
  const look = async (options) => {
    const found = await get("state", { topic }, options);
    note(`state ${topic}`, found.lag);
    for (const row of found.rows) note(place(row), row.offset);
    chart.draw(noted(`state ${topic}`));
    const error = found.rows.find((row) => row.error)?.error;
    summary.replaceChildren(error ? alert(error) : "", figures([["State", found.state], ["Group", found.group ?? "not of drumlin.state"],
      ["Members", found.group_state ?? "–"], ["Lag", count(found.lag)], ["Committed", age(found.committed_ms)]]));
    told.replaceChildren("Changelog: ", h("a", { href: `#/topic/${encodeURIComponent(topic)}` }, topic),
      ...(found.group ? ["; group ", h("a", { href: `#/group/${encodeURIComponent(found.group)}` }, found.group)] : []),
      found.not_shown ? `; ${count(found.not_shown)} partitions are not shown` : "");
    list.set(found.rows);
  };
  await look();
  context.title(topic);
  context.live(5, look);
  main.replaceChildren(h("h1", {}, topic), summary, told, chart.element, h("h2", {}, "Partitions"), list.element,
    h("p", { class: "quiet" }, ABOUT));
}
