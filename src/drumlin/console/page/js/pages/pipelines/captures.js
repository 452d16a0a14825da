// Captures of databases: the position that each has written, and its tables.

import { alert, figures, h } from "../../dom.js";
import { latestRate, note } from "../../history.js";
import { List } from "../../list.js";
import { age, count, rate, time } from "../../words.js";

const ABOUT = "A capture writes its position with every commit, and every few seconds (--heartbeat-ms) while no captured table changes. What it writes "
  + "is all that the cluster knows: how far the database is ahead, and whether the process runs, tells drumlin capture status. "
  + "Ages compare this browser's clock with the capture's.";

export async function captures(context, told) {
  const list = context.keep(new List({ label: "Captures", nothing: "no captures", sortedBy: 0, columns: [
    { title: "Capture", text: (row) => row.name, href: (row) => `#/capture/${encodeURIComponent(row.name)}` },
    { title: "State", width: "7rem", text: (row) => (row.error ? "unreadable" : row.phase), isBad: (row) => row.error !== null },
    { title: "Database", text: (row) => row.database ?? "–" },
    { title: "Position", text: (row) => row.position ?? "–" },
    { title: "Written", width: "8rem", isNumber: true, text: (row) => age(row.written_ms), by: (row) => row.written_ms },
    { title: "Complete up to", width: "12rem", text: (row) => time(row.complete_ms).slice(0, 19), by: (row) => row.complete_ms },
    { title: "Records/s", width: "7rem", isNumber: true, text: (row) => rate(latestRate(`capture ${row.name}`)), by: (row) => latestRate(`capture ${row.name}`) },
    { title: "Tables", width: "6rem", isNumber: true, text: (row) => count(row.table_count), by: (row) => row.table_count },
    { title: "Unread", width: "6rem", isNumber: true, text: (row) => count(row.unread), by: (row) => row.unread, isBad: (row) => row.unread > 0 },
  ] }));
  const look = async (options) => {
    const found = await context.get("captures", {}, options);
    for (const row of found.captures) note(`capture ${row.name}`, row.records);
    list.set(found.captures);
    told.textContent = `${count(found.captures.length)} captures${found.not_shown ? `; ${count(found.not_shown)} more are not shown` : ""}`;
  };
  await look();
  return { list, look, about: ABOUT };
}

export async function capture(context) {
  const { main, get, parts: [name] } = context;
  const summary = h("div", {});
  const told = h("p", {});
  const list = context.keep(new List({ label: "Tables", nothing: "no tables", sortedBy: 0, columns: [
    { title: "Table", text: (row) => row.table },
    { title: "Topic", text: (row) => row.topic, href: (row) => `#/topic/${encodeURIComponent(row.topic)}` },
    { title: "End offsets", isNumber: true, text: (row) => count(row.end_offsets), by: (row) => row.end_offsets },
    { title: "Records/s", isNumber: true, text: (row) => rate(latestRate(`topic ${row.topic}`)), by: (row) => latestRate(`topic ${row.topic}`) },
    { title: "State", text: (row) => (row.is_read ? "" : "is being read"), isBad: (row) => !row.is_read },
  ] }));
  const look = async (options) => {
    const found = await get("capture", { capture: name }, options);
    note(`capture ${name}`, found.records);
    for (const row of found.tables) note(`topic ${row.topic}`, row.end_offsets);
    summary.replaceChildren(found.error ? alert(found.error) : "", figures([
      ["State", found.error ? "unreadable" : found.phase, found.error !== null], ["Database", found.database ?? "–"],
      ["Form", found.form ?? "–"], ["Position", found.position ?? "–"], ["Written", age(found.written_ms)],
      ["Complete up to", time(found.complete_ms)], ["Records of this process", count(found.records)],
      ["Transactions of the database", count(found.transactions)], ["Restarts", count(found.restarts), found.restarts > 0],
    ]));
    const { transaction } = found;
    told.replaceChildren("Position: ", h("a", { href: `#/topic/${encodeURIComponent(found.topic)}/records` }, found.topic),
      transaction === null ? "; its transactional id is not to be seen"
        : `; transactional id ${transaction.transactional_id}: ${transaction.state}, last begun ${age(transaction.start_ms)}`);
    list.set(found.tables);
  };
  await look();
  context.title(name);
  context.live(5, look);
  main.replaceChildren(h("h1", {}, name), summary, told, h("h2", {}, "Tables"), list.element, h("p", { class: "quiet" }, ABOUT));
}
