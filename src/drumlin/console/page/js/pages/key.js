// The latest value of a key, and its history, as far as the log still has it.

import { alert, choice, h, labelled } from "../dom.js";
import { brief } from "../words.js";
import { formatChoice, recordList } from "./record.js";

const ROWS_MAX = 200;

export async function historyOfKey(context) {
  const { part, topic: name } = context;
  const key = h("input", { type: "search", name: "key", size: 30, placeholder: "a key ( / )", value: context.query.get("key") ?? "" });
  const kind = choice("kind", [["text", "text"], ["hex", "hex digits"]], "text");
  const format = formatChoice();
  const { list, opened } = recordList(context, format, "Records of the key, the newest first");
  const told = h("p", { class: "quiet", role: "status" });
  const latest = h("p", { class: "latest" });
  const stop = h("button", { type: "button", disabled: true, onclick: () => { run = null; } }, "Stop");
  let run = null;

  // Looks through one partition after the other from its end, the one of Kafka's partitioner first.
  const look = async () => {
    const mine = {};
    run = mine;
    stop.disabled = false;
    const rows = [];
    list.set(rows);
    opened.replaceChildren();
    latest.textContent = "";
    const partitions = (await context.get("topic", { topic: name })).partitions.map((each) => each.partition);
    let waiting = null;
    let partition = partitions[0];
    while (run === mine && partition !== undefined) {
      let before = null;
      do {
        const found = await context.get("search", { topic: name, partition, key: key.value, format: kind.value, before, limit: ROWS_MAX });
        if (waiting === null) {
          waiting = partitions.filter((each) => each !== found.hashed_partition);
          if (partition !== found.hashed_partition) {
            partition = found.hashed_partition;
            before = null;
            continue;
          }
        }
        rows.push(...found.records.map((each) => ({ ...each, partition })));
        list.set(rows);
        if (rows.length && !latest.textContent) {
          latest.textContent = `Latest value: ${rows[0].value === null ? "none, it was deleted (a tombstone)" : brief(rows[0].value, format.value)}`;
        }
        before = found.before_offset;
        told.textContent = before === null ? `partition ${partition} is looked through`
          : `partition ${partition}: looked through from ${before} to ${found.end_offset}`;
      } while (run === mine && before !== null && rows.length < ROWS_MAX);
      if (rows.length >= ROWS_MAX) break;
      partition = waiting.shift();
    }
    const ending = rows.length >= ROWS_MAX ? "there may be older ones" : run === mine ? "all partitions are looked through" : "stopped";
    told.textContent = `${rows.length} records of this key; ${ending}`;
    stop.disabled = true;
  };
  const form = h("form", { class: "bar", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await look();
    } catch (error) {
      stop.disabled = true;
      if (error.name !== "AbortError") told.replaceChildren(alert(error.message));
    }
  } }, labelled("Key", key), labelled("Given as", kind), labelled("Format", format), h("button", {}, "Look"), stop);
  part.replaceChildren(form, told, latest, list.element, opened);
}
