// Records of a partition from any offset or time.

import { alert, choice, h, labelled } from "../dom.js";
import { formatChoice, recordList } from "./record.js";

export async function browse(context) {
  const { part, query, topic: name } = context;
  const described = await context.get("topic", { topic: name });
  const partition = choice("partition", described.partitions.map((each) => [String(each.partition), String(each.partition)]),
    query.get("partition") ?? "0");
  const from = choice("from", [["latest", "the last records"], ["earliest", "the beginning"], ["offset", "an offset"], ["time", "a time (UTC)"]],
    query.has("offset") ? "offset" : "latest");
  const offset = h("input", { name: "offset", inputmode: "numeric", pattern: "[0-9]{1,19}", size: 12, value: query.get("offset") ?? "" });
  const moment = h("input", { name: "time", type: "datetime-local", step: "1" });
  const offsetLabel = labelled("Offset", offset);
  const momentLabel = labelled("Time (UTC)", moment);
  const isolation = h("input", { type: "checkbox" });
  const format = formatChoice();
  const { list, opened } = recordList({ ...context, partition: () => partition.value }, format, "Records");
  const told = h("p", { class: "quiet", role: "status" });
  const further = h("button", { type: "button", onclick: () => read(String(next)) }, "Next records");
  let next = null;
  let turn = 0;

  const arrange = () => {
    offsetLabel.hidden = from.value !== "offset";
    momentLabel.hidden = from.value !== "time";
  };
  const at = () => {
    if (from.value === "offset") return offset.value || "0";
    if (from.value === "time") return `time:${Math.max(Date.parse(`${moment.value || "1970-01-01T00:00"}Z`), 0)}`;
    return from.value;
  };
  const read = async (start) => {
    const mine = ++turn;
    try {
      const found = await context.get("records", { topic: name, partition: partition.value, at: start, limit: 100,
        isolation: isolation.checked ? "read_uncommitted" : "read_committed" });
      if (mine !== turn) return; // something else is asked for
      next = found.next_offset;
      list.set(found.records);
      opened.replaceChildren();
      further.disabled = next >= found.end_offset;
      told.textContent = `${found.records.length} records from offset ${found.first_offset} to ${next}, `
        + `in a log from ${found.start_offset} to ${found.end_offset}`;
    } catch (error) {
      if (error.name !== "AbortError") told.replaceChildren(alert(error.message));
    }
  };
  const form = h("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    read(at());
  } }, labelled("Partition", partition), labelled("From", from), offsetLabel, momentLabel, labelled("Format", format),
  labelled("open and aborted transactions too", isolation, true), h("button", {}, "Read"), further);
  from.addEventListener("change", arrange);
  arrange();
  await read(at());
  part.replaceChildren(form, told, list.element, opened);
}
