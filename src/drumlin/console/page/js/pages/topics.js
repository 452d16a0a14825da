// All topics, with sizes, and rates from one look to the next.

import { h, labelled } from "../dom.js";
import { List } from "../list.js";
import { count, rate, size } from "../words.js";

export async function topics(context) {
  const { main, get } = context;
  let before = null; // {at, ends}
  let after = null;
  const perSecond = (row) => {
    const earlier = before?.ends.get(row.name);
    return earlier === undefined ? null : Math.max(row.end_offsets - earlier, 0) / ((after.at - before.at) / 1000);
  };
  const list = context.keep(new List({ label: "Topics", nothing: "no topics", sortedBy: 0, columns: [
    { title: "Topic", width: "minmax(0,3fr)", text: (row) => row.name, href: (row) => `#/topic/${encodeURIComponent(row.name)}` },
    { title: "Partitions", isNumber: true, text: (row) => count(row.partitions), by: (row) => row.partitions },
    { title: "Replicas", isNumber: true, text: (row) => row.replicas, by: (row) => row.replicas },
    { title: "Offsets", isNumber: true, text: (row) => count(row.offsets), by: (row) => row.offsets },
    { title: "Records/s", isNumber: true, text: (row) => rate(perSecond(row)), by: perSecond },
    { title: "Size", isNumber: true, text: (row) => size(row.size_bytes), by: (row) => row.size_bytes },
    { title: "State", text: (row) => state(row), by: (row) => row.offline * 1e6 + row.under_replicated,
      isBad: (row) => row.offline + row.under_replicated > 0 },
  ] }));
  const search = h("input", { type: "search", "aria-label": "Filter topics", placeholder: "filter ( / )",
    value: context.query.get("containing") ?? "" });
  const internal = h("input", { type: "checkbox" });
  const total = h("span", { class: "quiet" });
  const filter = () => list.filter(search.value.trim() ? (row) => row.name.includes(search.value.trim()) : null);
  let turn = 0;
  const look = async (options) => {
    const mine = ++turn;
    const found = await get("topics", { internal: internal.checked }, options);
    if (mine !== turn) return; // others are asked for
    before = after;
    after = { at: performance.now(), ends: new Map(found.topics.map((row) => [row.name, row.end_offsets])) };
    list.set(found.topics);
    total.textContent = `${count(found.topics.length)} topics`
      + (found.not_shown ? `, ${count(found.not_shown)} more are not shown` : "");
  };
  search.addEventListener("input", filter);
  internal.addEventListener("change", () => look().catch((error) => { total.textContent = error.message; }));
  await look();
  filter();
  context.title("Topics");
  context.live(5, look);
  main.replaceChildren(h("h1", {}, "Topics"),
    h("div", { class: "bar" }, search, labelled("internal ones too", internal, true), total), list.element);
}

const state = (row) => [row.offline ? `${row.offline} without leader` : "",
  row.under_replicated ? `${row.under_replicated} under-replicated` : ""].filter(Boolean).join(", ");
