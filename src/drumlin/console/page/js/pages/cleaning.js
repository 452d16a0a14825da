// The picture of a compacted log: tail, head and active segment to scale, and what the next cleaning frees.

import { alert, h } from "../dom.js";
import { count, duration, size, time } from "../words.js";

const PARTS = [["tail", "Tail: cleaned, at most one record a key", "tail_bytes"],
  ["head", "Head: written since, what the next cleaning looks at", "head_bytes"],
  ["waiting", "Closed, not cleanable yet: younger than min.compaction.lag.ms, or from an open transaction on", "uncleanable_bytes"],
  ["active", "Active segment: cleaned once it is closed", "active_bytes"]];

export async function cleaning(context) {
  const { part, get, topic: name } = context;
  const simulated = new Map();
  const place = h("div", {});
  const look = async (options) => {
    const found = await get("compaction", { topic: name }, options);
    place.replaceChildren(...picture(context, found, simulated));
  };
  await look();
  context.live(10, look);
  part.replaceChildren(place);
}

function picture(context, found, simulated) {
  if (found.why_not) return [h("p", {}, `There is no picture: ${found.why_not}`)];
  const largest = Math.max(1, ...found.rows.filter((row) => !row.error).map(total));
  return [
    ...found.errors.map(alert),
    h("ul", { class: "key" }, PARTS.map(([kind, text]) => h("li", {}, h("i", { class: kind }), ` ${text}`))),
    h("p", { class: "quiet" }, `A tombstone stays for ${duration(found.configs["delete.retention.ms"])} after the cleaning that `
      + `first kept it. Cleaning begins at a dirty ratio of ${found.configs["min.cleanable.dirty.ratio"]}.`),
    ...found.rows.map((row) => partition(context, found, row, largest, simulated)),
  ];
}

// Brokers of earlier versions do not tell each part.
const bytes = (row, field) => row[field] ?? 0;
const total = (row) => PARTS.reduce((sum, [, , field]) => sum + bytes(row, field), 0);

function partition(context, found, row, largest, simulated) {
  const title = `Partition ${row.partition}${row.broker === undefined ? "" : ` on broker ${row.broker}`}`;
  if (row.error) return h("section", { class: "partition" }, h("h2", {}, title), alert(row.error));
  const told = PARTS.map(([kind, , field]) => `${kind} ${size(bytes(row, field))}`).join(", ");
  const bar = h("div", { class: "log", role: "img", "aria-label": `${title}: ${told}` },
    PARTS.map(([kind, , field]) => {
      const piece = h("i", { class: kind });
      piece.style.width = `${(100 * bytes(row, field)) / Math.max(total(row), 1)}%`;
      return piece;
    }));
  bar.style.width = `${(100 * total(row)) / largest}%`;
  const last = row.last_cleaning;
  const key = `${row.operator} ${row.partition}`;
  const outcome = h("div", { "aria-live": "polite" }, ...freed(simulated.get(key), row, largest));
  const button = h("button", { type: "button", onclick: () => simulate(context, row, largest, simulated, outcome, button) },
    "What would the next cleaning free?");
  return h("section", { class: "partition" }, h("h2", {}, title), bar, h("p", {}, told),
    ratio(row.dirty_ratio, Number(found.configs["min.cleanable.dirty.ratio"])),
    h("p", {}, `State: ${state(row)}`),
    h("p", {}, last ? `Last cleaning: ${time(last.ended_ms)}, freed ${size(last.bytes_freed)}, kept ${count(last.tombstones_kept)} tombstones`
      : "Not cleaned since the broker started"),
    h("p", {}, row.delete_horizon_ms === null ? "No tombstone in the tail has a horizon"
      : `The first tombstones can go from ${time(row.delete_horizon_ms)} on`),
    found.can_simulate ? h("p", {}, button) : h("p", { class: "quiet" },
      "What the next cleaning would free is told if the console is started with --data on the broker's machine."),
    outcome);
}

function ratio(dirty, begins) {
  const filled = h("i", {});
  filled.style.width = `${100 * dirty}%`;
  const mark = h("b", {});
  mark.style.left = `${100 * begins}%`;
  return h("div", {}, h("p", {}, `Dirty ratio ${dirty.toFixed(3)}`),
    h("div", { class: "ratio", role: "img", "aria-label": `dirty ratio ${dirty.toFixed(3)}, cleaning begins at ${begins}` }, filled, mark));
}

function state(row) {
  if (row.uncleanable_because) return `uncleanable: ${row.uncleanable_because}`;
  if (row.is_being_cleaned) return "being cleaned";
  if (row.waits_because) return `waits: ${row.waits_because}`;
  if (row.overdue_ms) return "overdue";
  if (row.uncleanable_bytes && !row.head_bytes) return "closed segments wait: too young, or an open transaction";
  if (!row.tail_bytes && !row.head_bytes) return `only an active segment, which closes ${row.active_closes}`;
  return row.head_bytes ? "dirty" : "clean";
}

async function simulate(context, row, largest, simulated, outcome, button) {
  button.disabled = true;
  outcome.replaceChildren(h("p", { class: "quiet" }, "The broker reads what a cleaning would read …"));
  try {
    const found = await context.post("simulation", { topic: context.topic, partition: row.partition });
    for (const each of found.results) simulated.set(`${each.operator} ${each.partition}`, each);
    outcome.replaceChildren(...freed(simulated.get(`${row.operator} ${row.partition}`), row, largest));
  } catch (error) {
    if (error.name !== "AbortError") outcome.replaceChildren(alert(error.message));
  }
  button.disabled = false;
}

function freed(result, row, largest) {
  if (!result) return [];
  const done = result.cleaning;
  if (!done) return [h("p", {}, `Nothing would be cleaned: ${result.reason}`)];
  const bar = h("div", { class: "freed", role: "img", "aria-label": `would free ${size(done.bytes_freed)}` });
  bar.style.width = `${(100 * done.bytes_freed) / largest}%`;
  const why = [[done.superseded, "superseded"], [done.expired_tombstones, "tombstones past their horizon"], [done.without_key, "without key"],
    [done.aborted, "aborted"], [done.markers_removed, "markers"]].filter(([number]) => number)
    .map(([number, word]) => `${count(number)} ${word}`).join(", ");
  return [bar, h("p", {}, `Would free ${size(done.bytes_freed)} of ${size(done.bytes_read)}: ${why || "no records"}; `
    + `${count(done.tombstones_kept)} tombstones stay`)];
}
