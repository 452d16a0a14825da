// Records in a list, and one of them whole, in the chosen format.

import { alert, choice, h } from "../dom.js";
import { List } from "../list.js";
import { brief, bytesOf, count, size, time, visible, whole, wholeText } from "../words.js";

const WHOLE_BYTES = 1 << 20;

export const formatChoice = () => choice("format",
  [["auto", "as it looks"], ["text", "text"], ["json", "JSON"], ["hex", "hex"]], "auto");

// A key or a value in a line: as its schema shows it, where there is one, unless a format is chosen.
export function inLine(row, name, format) {
  const text = format === "auto" ? row[`${name}_by_schema`]?.text : undefined;
  return text === undefined ? brief(row[name], format) : visible(text.slice(0, 300).replace(/\s+/g, " "));
}

// A list of records with a place below it for the one that is opened.
export function recordList(context, format, label) {
  const opened = h("section", { class: "record", "aria-label": "A record", "aria-live": "polite" });
  const list = context.keep(new List({ label, nothing: "no records here", columns: [
    ...(context.hasPartitions ? [{ title: "Partition", width: "6rem", isNumber: true, text: (row) => row.partition, by: (row) => row.partition }] : []),
    { title: "Offset", width: "9rem", text: (row) => row.offset, by: (row) => row.offset, open: (row) => open(row) },
    { title: "Time (UTC)", width: "13rem", text: (row) => time(row.timestamp_ms), by: (row) => Number(row.timestamp_ms) },
    { title: "Key", text: (row) => inLine(row, "key", format.value) },
    { title: "Value", width: "minmax(0,3fr)", text: (row) => (row.value === null ? "null (a tombstone)" : inLine(row, "value", format.value)) },
    { title: "Size", width: "6rem", isNumber: true, text: (row) => size(row.value?.size_bytes ?? 0), by: (row) => row.value?.size_bytes ?? 0 },
  ] }));
  let turn = 0;
  const open = async (row) => {
    const mine = ++turn;
    try {
      const found = await context.get("records", { topic: context.topic, partition: row.partition ?? context.partition(),
        at: row.offset, limit: 1, cut: WHOLE_BYTES, isolation: "read_uncommitted" });
      if (mine !== turn) return;
      const record = found.records[0];
      if (record?.offset !== row.offset) throw new Error("this record is gone: the log was cleaned or shortened");
      opened.replaceChildren(...details(record, format.value));
    } catch (error) {
      if (error.name !== "AbortError") opened.replaceChildren(alert(error.message));
    }
  };
  format.addEventListener("change", () => {
    list.arrange();
    opened.replaceChildren();
  });
  return { list, opened };
}

function details(record, format) {
  return [
    h("h2", {}, `Offset ${record.offset}, ${time(record.timestamp_ms)}`),
    part("Key", record.key, format, record.key_by_schema), part("Value", record.value, format, record.value_by_schema),
    ...record.headers.map((each) => part(`Header ${each.name}`, each.value, format)),
    record.headers_count > record.headers.length
      ? h("p", { class: "quiet" }, `and ${count(record.headers_count - record.headers.length)} more headers`) : "",
  ].filter((each) => each !== "");
}

function part(name, field, format, bySchema) {
  if (bySchema?.text !== undefined && format === "auto") {
    return h("div", {}, h("p", { class: "quiet" }, `${name}: ${size(field.size_bytes)}, by schema ${bySchema.schema_id}`
      + `${bySchema.is_cut ? ", of which this is the beginning" : ""}`),
      h("pre", { tabindex: "0", "aria-label": name }, wholeText(bySchema.text)));
  }
  const why = bySchema?.error && format === "auto" ? `; not decoded: ${visible(bySchema.error)}` : "";
  const told = field === null ? "null" : size(field.size_bytes);
  const isCut = field !== null && bytesOf(field).length < field.size_bytes;
  return h("div", {}, h("p", { class: "quiet" }, `${name}: ${told}${isCut ? ", of which this is the beginning" : ""}${why}`),
    h("pre", { tabindex: "0", "aria-label": name }, whole(field, format)));
}
