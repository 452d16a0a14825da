// The latest value of a key, and its history, as far as the log still has it.

import { alert, choice, h, labelled } from "../dom.js";
import { formatChoice, inLine, recordList } from "./record.js";

const ROWS_MAX = 200;

export async function historyOfKey(context) {
  const { part, topic: name } = context;
  const key = h("input", { type: "search", name: "key", size: 30, placeholder: "a key ( / )", value: context.query.get("key") ?? "" });
  const kind = choice("kind", [["text", "text"], ["hex", "hex digits"]], "text");
  const format = formatChoice();
  const { list, opened } = recordList(context, format, "Records of the key, the newest first");
  const told = h("p", { class: "quiet", role: "status" });
  const latest = h("p", { class: "latest" });
  const stop = h("button", { type: "button", disabled: true, onclick: () => { run.isStopped = true; } }, "Stop");
  let run = null;

  // Looks through one partition after the other from its end, the one of Kafka's partitioner first.
  const search = async () => {
    const mine = { isStopped: false };
    run = mine;
    stop.disabled = false;
    const rows = [];
    list.set(rows);
    opened.replaceChildren();
    latest.textContent = "";
    const look = (partition, before) => context.get("search",
      { topic: name, partition, key: key.value, format: kind.value, before, limit: ROWS_MAX });
    const partitions = (await context.get("topic", { topic: name })).partitions.map((each) => each.partition);
    const { hashed_partition: first } = await look(partitions[0], 0);
    for (const partition of [first, ...partitions.filter((each) => each !== first)]) {
      let before = null;
      do {
        const found = await look(partition, before);
        if (run !== mine) return; // another key is asked for
        rows.push(...found.records.map((each) => ({ ...each, partition })));
        list.set(rows);
        latest.textContent = latestOf(rows, format.value);
        before = found.before_offset;
        told.textContent = before === null ? `partition ${partition} is looked through`
          : `partition ${partition}: looked through from ${before} to ${found.end_offset}`;
      } while (!mine.isStopped && before !== null && rows.length < ROWS_MAX);
      if (mine.isStopped || rows.length >= ROWS_MAX) break;
    }
    const ending = rows.length >= ROWS_MAX ? "there may be older ones" : mine.isStopped ? "stopped" : "all partitions are looked through";
    told.textContent = `${rows.length} records of this key; ${ending}`;
    stop.disabled = true;
  };
  const form = h("form", { class: "bar", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await search();
    } catch (error) {
      stop.disabled = true;
      if (error.name !== "AbortError") told.replaceChildren(alert(error.message));
    }
  } }, labelled("Key", key), labelled("Given as", kind), labelled("Format", format), h("button", {}, "Look"), stop);
  part.replaceChildren(form, told, latest, list.element, opened);
}

// The newest record of a partition is its first one. A key that is in several has no latest value of its own.
function latestOf(rows, format) {
  const newest = rows.filter((row, index) => index === 0 || row.partition !== rows[index - 1].partition);
  const told = newest.map((row) => ({ partition: row.partition,
    text: row.value === null ? "none, it was deleted (a tombstone)" : inLine(row, "value", format) }));
  if (told.length < 2) return told.map(({ text }) => `Latest value: ${text}`).join("");
  return `Several partitions have this key. ${told.map(({ partition, text }) => `Latest value in ${partition}: ${text}`).join("; ")}`;
}
