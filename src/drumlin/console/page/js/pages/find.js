// Records for which conditions are true, looked for through partitions, a part of the log at a time.

import { alert, choice, h, labelled } from "../dom.js";
import { count } from "../words.js";
import { formatChoice, recordList } from "./record.js";

const ROWS_MAX = 500;
const EXAMPLES = "key=a, value.amount >= 100, value~text, header.trace, offset<5: one a line, all must be true";

export async function find(context) {
  const { part, topic: name } = context;
  const described = await context.get("topic", { topic: name });
  const numbers = described.partitions.map((each) => each.partition);
  const where = h("textarea", { rows: 2, spellcheck: "false", placeholder: "value.amount >= 100" });
  const partition = choice("partition", [["", "all"], ...numbers.map((each) => [String(each), String(each)])], "");
  const from = choice("from", [["earliest", "the beginning"], ["offset", "an offset"], ["time", "a time (UTC)"]], "earliest");
  const offset = h("input", { name: "offset", inputmode: "numeric", pattern: "[0-9]{1,19}", size: 12, value: "0" });
  const moment = h("input", { name: "time", type: "datetime-local", step: "1" });
  const offsetLabel = labelled("Offset", offset);
  const momentLabel = labelled("Time (UTC)", moment);
  const isolation = h("input", { type: "checkbox" });
  const format = formatChoice();
  const { list, opened } = recordList({ ...context, hasPartitions: true }, format, "Records that were found");
  const told = h("div", { class: "quiet", role: "status" });
  const bar = h("progress", { max: "1", value: "0", "aria-label": "How much is looked through", hidden: true });
  const stop = h("button", { type: "button", disabled: true, onclick: () => { run.isStopped = true; } }, "Stop");
  const further = h("button", { type: "button", disabled: true, onclick: () => { more(run); } }, "Go on");
  let run = null;

  const arrange = () => {
    offsetLabel.hidden = from.value !== "offset";
    momentLabel.hidden = from.value !== "time";
  };
  from.addEventListener("change", arrange);
  arrange();
  const at = () => {
    if (from.value === "offset") return offset.value || "0";
    if (from.value === "time") return `time:${Math.max(Date.parse(`${moment.value || "1970-01-01T00:00"}Z`), 0)}`;
    return "earliest";
  };
  const begin = () => {
    const places = (partition.value === "" ? numbers : [Number(partition.value)])
      .map((each) => ({ partition: each, at: at(), first: null, next: null, end: null }));
    run = { places, rows: [], looked: 0, large: 0, isStopped: false,
      where: where.value.split("\n").map((each) => each.trim()).filter((each) => each !== ""),
      isolation: isolation.checked ? "read_uncommitted" : "read_committed" };
    list.set([]);
    opened.replaceChildren();
    more(run);
  };
  const isDone = (place) => place.end !== null && place.next >= place.end;
  const tell = (mine, ending) => {
    const ends = new Map(described.partitions.map((each) => [each.partition, (each.end_offset ?? 0) - (each.start_offset ?? 0)]));
    const total = mine.places.reduce((sum, each) => sum + (each.end === null ? ends.get(each.partition) : each.end - each.first), 0);
    const passed = mine.places.reduce((sum, each) => sum + (each.next === null ? 0 : each.next - each.first), 0);
    bar.hidden = false;
    bar.value = total === 0 ? 1 : Math.min(passed / total, 1);
    const large = mine.large ? `; ${count(mine.large)} are too large to be looked into` : "";
    told.textContent = `${count(mine.rows.length)} found; looked at ${count(mine.looked)} records, `
      + `${count(passed)} of ${count(total)} offsets${large}${ending}`;
  };
  // Goes on until all is looked through, enough is found, or someone stops it.
  const more = async (mine) => {
    mine.isStopped = false;
    stop.disabled = false;
    further.disabled = true;
    const limit = mine.rows.length + ROWS_MAX;
    try {
      for (const place of mine.places) {
        while (!isDone(place) && !mine.isStopped && mine.rows.length < limit) {
          const found = await context.get("filter", { topic: name, partition: place.partition, at: place.next ?? place.at,
            where: mine.where, limit: Math.min(ROWS_MAX, limit - mine.rows.length), isolation: mine.isolation });
          if (run !== mine) return; // something else is looked for
          place.first ??= found.first_offset;
          place.end ??= found.end_offset; // what comes later is not looked for
          if (found.next_offset < found.end_offset && found.next_offset <= (place.next ?? place.first)) {
            throw new Error(`partition ${place.partition}: nothing comes from offset ${found.next_offset} on: try again`);
          }
          place.next = Math.min(found.next_offset, place.end);
          mine.looked += found.looked;
          mine.large += found.too_large;
          mine.rows.push(...found.records.filter((each) => each.offset < place.end).map((each) => ({ ...each, partition: place.partition })));
          if (found.next_offset >= found.end_offset) place.next = place.end; // it may have been shortened
          list.set(mine.rows);
          tell(mine, " …");
        }
      }
      const isWhole = mine.places.every(isDone);
      further.disabled = isWhole;
      tell(mine, isWhole ? ": all is looked through" : mine.isStopped ? ": stopped" : ": there may be more");
    } catch (error) {
      if (run !== mine || error.name === "AbortError") return;
      further.disabled = false;
      told.replaceChildren(alert(error.message));
    }
    stop.disabled = true;
  };
  const form = h("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    begin();
  } }, labelled("Where", where), labelled("Partition", partition), labelled("From", from), offsetLabel, momentLabel, labelled("Format", format),
  labelled("open and aborted transactions too", isolation, true), h("button", {}, "Look"), stop, further);
  part.replaceChildren(form, h("p", { class: "quiet" }, EXAMPLES), bar, told, list.element, opened);
}
