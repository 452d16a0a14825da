// One topic: partitions, configuration, records, the history of a key, and cleaning.

import { Chart } from "../chart.js";
import { h } from "../dom.js";
import { note, rates } from "../history.js";
import { List } from "../list.js";
import { count, rate, size } from "../words.js";
import { cleaning } from "./cleaning.js";
import { configurations } from "./configurations.js";
import { historyOfKey } from "./key.js";
import { find } from "./find.js";
import { browse } from "./records.js";
import { write } from "./write.js";

const TABS = [["partitions", "Partitions"], ["records", "Records"], ["key", "A key"], ["find", "Find"], ["configuration", "Configuration"],
  ["cleaning", "Cleaning"], ["write", "Write"]];
const SHOWN = { partitions, records: browse, key: historyOfKey, find, configuration, cleaning, write };

export async function topic(context) {
  const [name, tab = "partitions"] = context.parts;
  context.title(name);
  const tabs = h("nav", { "aria-label": "About this topic" }, TABS.map(([each, text]) => h("a", {
    href: `#/topic/${encodeURIComponent(name)}/${each}`, "aria-current": each === tab ? "page" : null }, text)));
  const part = h("div", {});
  await (Object.hasOwn(SHOWN, tab) ? SHOWN[tab] : partitions)({ ...context, topic: name, part });
  context.main.replaceChildren(h("h1", {}, name), h("div", { class: "bar" }, tabs), part);
}

async function partitions(context) {
  const { part, get, topic: name } = context;
  const list = context.keep(new List({ label: "Partitions", columns: [
    { title: "Partition", width: "6rem", text: (row) => row.partition, by: (row) => row.partition,
      href: (row) => `#/topic/${encodeURIComponent(name)}/records?partition=${row.partition}` },
    { title: "Leader", width: "5rem", isNumber: true, text: (row) => (row.leader < 0 ? "none" : row.leader), by: (row) => row.leader,
      isBad: (row) => row.leader < 0 },
    { title: "Replicas", text: (row) => row.replicas.join(", ") },
    { title: "In sync", text: (row) => row.isr.join(", "), isBad: (row) => row.isr.length < row.replicas.length },
    { title: "First offset", isNumber: true, text: (row) => count(row.start_offset), by: (row) => row.start_offset },
    { title: "End offset", isNumber: true, text: (row) => count(row.end_offset), by: (row) => row.end_offset },
    { title: "Size", isNumber: true, text: (row) => size(row.size_bytes), by: (row) => row.size_bytes },
  ] }));
  const about = h("p", { class: "quiet" });
  const chart = new Chart("Records/s", rate);
  const look = async (options) => {
    const found = await get("topic", { topic: name }, options);
    about.textContent = `id ${found.topic_id ?? "none"}${found.is_internal ? ", internal" : ""}`;
    const ends = found.partitions.map((row) => row.end_offset);
    note(`topic ${name}`, ends.includes(null) ? null : ends.reduce((sum, each) => sum + each, 0));
    chart.draw(rates(`topic ${name}`));
    list.set(found.partitions);
  };
  await look();
  context.live(5, look);
  part.replaceChildren(about, chart.element, list.element);
}

async function configuration(context) {
  const { part, get, topic: name } = context;
  part.replaceChildren(...configurations(context, await get("configs", { topic: name })));
}
