// Groups with their lag, and one group: members, and the lag of each partition.

import { Chart } from "../chart.js";
import { figures, h } from "../dom.js";
import { note, noted } from "../history.js";
import { List } from "../list.js";
import { count } from "../words.js";
import { reset } from "./reset.js";

export async function groups(context) {
  const { main, get } = context;
  const isShare = context.name === "share";
  const title = isShare ? "Share groups" : "Groups";
  const list = context.keep(new List({ label: title, nothing: `no ${title.toLowerCase()}`, sortedBy: 0, columns: [
    { title: "Group", width: "minmax(0,3fr)", text: (row) => row.group, href: (row) => `#/group/${encodeURIComponent(row.group)}` },
    { title: "State", text: (row) => row.state ?? "" },
    { title: "Type", text: (row) => row.type ?? "" },
    { title: "Lag", isNumber: true, text: (row) => count(row.lag), by: (row) => row.lag },
    { title: "Coordinator", isNumber: true, text: (row) => row.coordinator, by: (row) => row.coordinator },
  ] }));
  const search = h("input", { type: "search", "aria-label": "Filter groups", placeholder: "filter ( / )" });
  const told = h("span", { class: "quiet" });
  let turn = 0;
  const look = async (options) => {
    const mine = ++turn;
    const found = await get("groups", { containing: search.value.trim() }, options);
    if (mine !== turn) return; // another text is typed
    const rows = found.groups.filter((row) => (row.type === "share") === isShare);
    for (const row of rows.slice(0, found.lags_max)) note(`group ${row.group}`, row.lag);
    list.set(rows);
    told.textContent = `${count(rows.length)} groups${found.not_shown ? `, ${count(found.not_shown)} more are not shown` : ""}`
      + (found.groups.length > found.lags_max ? `; lag of the first ${found.lags_max}: filter for others` : "");
  };
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => look().catch((error) => {
      if (error.name !== "AbortError") told.textContent = error.message;
    }), 200);
  });
  await look();
  context.title(title);
  context.live(5, look);
  main.replaceChildren(h("h1", {}, title), h("div", { class: "bar" }, search, told), list.element);
}

export async function group(context) {
  const { main, get, parts: [name, tab] } = context;
  if (tab === "reset") return reset(context);
  const offsets = context.keep(new List({ label: "Partitions of the group", nothing: "no offsets, and nothing assigned", columns: [
    { title: "Topic", width: "minmax(0,2fr)", text: (row) => row.topic, href: (row) => `#/topic/${encodeURIComponent(row.topic)}` },
    { title: "Partition", width: "6rem", isNumber: true, text: (row) => row.partition, by: (row) => row.partition },
    { title: "Offset", isNumber: true, text: (row) => count(row.offset), by: (row) => row.offset },
    { title: "End offset", isNumber: true, text: (row) => count(row.end_offset), by: (row) => row.end_offset },
    { title: "Lag", isNumber: true, text: (row) => count(row.lag), by: (row) => row.lag },
    { title: "Member", text: (row) => row.client_id ?? "" },
  ] }));
  const members = context.keep(new List({ label: "Members", nothing: "no members", columns: [
    { title: "Client id", text: (row) => row.client_id },
    { title: "Host", text: (row) => row.host },
    { title: "Member id", width: "minmax(0,2fr)", text: (row) => row.member_id },
    { title: "Partitions", width: "minmax(0,2fr)", text: (row) => row.partitions.join(", ") },
  ] }));
  const summary = h("div", {});
  const chart = new Chart("Lag");
  const look = async (options) => {
    const found = await get("group", { group: name }, options);
    summary.replaceChildren(figures([["State", found.state], ["Type", found.type], ["Lag", count(found.lag)],
      ["Members", count(found.members.length)]]));
    note(`group ${name}`, found.lag);
    chart.draw(noted(`group ${name}`));
    offsets.set(found.offsets);
    members.set(found.members);
  };
  await look();
  context.title(name);
  context.live(5, look);
  const resetLink = h("p", {}, h("a", { href: `#/group/${encodeURIComponent(name)}/reset` }, "Reset its offsets"));
  main.replaceChildren(h("h1", {}, name), summary, chart.element, resetLink, h("h2", {}, "Partitions"), offsets.element, h("h2", {}, "Members"), members.element);
}
