// A group's offsets moved: first shown by partition, then done exactly as shown.

import { alert, choice, figures, h, labelled } from "../dom.js";
import { List } from "../list.js";
import { count } from "../words.js";

const TARGETS = [["earliest", "the beginning"], ["latest", "the end"], ["time", "a time (UTC)"], ["offset", "an offset"],
  ["shift", "a shift of what is committed"], ["current", "what is committed, within the log"]];

export async function reset(context) {
  const { main, parts: [name], session } = context;
  const [found, rights] = await Promise.all([context.get("group", { group: name }), context.get("rights_on_group", { group: name })]);
  const topics = [...new Set(found.offsets.map((each) => each.topic))].sort();
  const to = choice("to", TARGETS, "earliest");
  const number = h("input", { inputmode: "numeric", pattern: "[+\\-]?[0-9]{1,19}", size: 12, value: "0" });
  const moment = h("input", { type: "datetime-local", step: "1" });
  const topic = h("input", { size: 30, list: "topics-of-group", placeholder: "all that it has committed" });
  const known = h("datalist", { id: "topics-of-group" }, topics.map((each) => h("option", { value: each })));
  const numberLabel = labelled("Offsets", number);
  const momentLabel = labelled("Time (UTC)", moment);
  const arrange = () => {
    numberLabel.hidden = !["offset", "shift"].includes(to.value);
    momentLabel.hidden = to.value !== "time";
  };
  to.addEventListener("change", arrange);
  arrange();
  const list = context.keep(new List({ label: "What the reset does", nothing: "nothing is planned", columns: [
    { title: "Topic", width: "minmax(0,2fr)", text: (row) => row.topic },
    { title: "Partition", width: "6rem", isNumber: true, text: (row) => row.partition, by: (row) => row.partition },
    { title: "Now", isNumber: true, text: (row) => count(row.old_offset), by: (row) => row.old_offset },
    { title: "Then", isNumber: true, text: (row) => count(row.new_offset), by: (row) => row.new_offset },
    { title: "Skipped", isNumber: true, text: (row) => count(row.skipped), by: (row) => row.skipped },
    { title: "Read again", isNumber: true, text: (row) => count(row.again), by: (row) => row.again },
    { title: "Remark", width: "minmax(0,2fr)", text: (row) => row.remark ?? "" },
  ] }));
  const told = h("div", { role: "status" });
  const sums = h("div", {});
  const why = session.onlyLooks ?? (rights.may_reset === false ? "this user has no right to it (READ on the group)" : null);
  const confirm = h("button", { type: "button", disabled: true, onclick: () => carryOut() }, "Reset as shown");
  let plan = null;
  let turn = 0;

  const show = (shown) => {
    plan = shown;
    list.set(plan?.moves ?? []);
    confirm.disabled = plan === null || why !== null;
    const sum = (field) => count((plan?.moves ?? []).reduce((all, row) => all + BigInt(row[field]), 0n));
    sums.replaceChildren(...(plan === null ? [] : [figures([["Partitions", count(plan.moves.length)],
      ["Offsets skipped", sum("skipped")], ["Offsets read again", sum("again")]])]));
  };
  const target = () => {
    if (to.value === "time") return `time:${Math.max(Date.parse(`${moment.value || "1970-01-01T00:00"}Z`), 0)}`;
    return ["offset", "shift"].includes(to.value) ? `${to.value}:${number.value.trim() || "0"}` : to.value;
  };
  const failed = (error) => {
    if (error.name !== "AbortError") told.replaceChildren(alert(error.message));
  };
  const preview = async () => {
    const mine = ++turn;
    show(null);
    told.replaceChildren("…");
    try {
      const shown = await context.get("reset_plan", { group: name, to: target(), topic: topic.value.trim() || null });
      if (mine !== turn) return; // something else is asked for
      show(shown);
      told.replaceChildren("Nothing is changed yet.",
        shown.gone.length ? ` ${count(shown.gone.length)} partitions that no longer exist are left alone.` : "");
    } catch (error) {
      if (mine === turn) failed(error);
    }
  };
  const carryOut = async () => {
    const { moves } = plan;
    confirm.disabled = true;
    turn++;
    try {
      const done = await context.post("reset", { group: name,
        moves: moves.map((row) => ({ topic: row.topic, partition: row.partition, old_offset: row.old_offset, new_offset: row.new_offset })) });
      told.replaceChildren(`${count(done.partitions)} offsets are reset. `, back("The group now"));
    } catch (error) {
      failed(error);
    }
    plan = null; // what was shown is done, or is no longer true: plan again
  };
  const back = (text) => h("a", { href: `#/group/${encodeURIComponent(name)}` }, text);
  const form = h("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    preview();
  } }, labelled("Reset to", to), numberLabel, momentLabel, labelled("Topic", topic), known, h("button", {}, "Preview"));
  [to, number, moment, topic].forEach((each) => each.addEventListener("input", () => {
    turn++;
    if (plan !== null) told.replaceChildren("");
    show(null); // what is confirmed is what was shown
  }));
  context.title(`Reset ${name}`);
  main.replaceChildren(h("h1", {}, `Reset ${name}`), h("p", {}, back("Back to the group")),
    why === null ? "" : h("p", { class: "quiet why" }, `A preview only: ${why}.`), form, told, sums, list.element,
    h("p", {}, confirm));
}
