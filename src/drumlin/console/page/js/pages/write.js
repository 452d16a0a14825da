// A record written to the topic: by key or to a partition, as text, JSON, hex, a null, or by a schema.

import { alert, choice, h, labelled } from "../dom.js";

const KINDS = [["text", "text"], ["json", "JSON"], ["hex", "hex digits"], ["null", "null"]];
const BY_SCHEMA = ["schema", "JSON, by a subject's schema"];

export async function write(context) {
  const { part, topic: name, session } = context;
  const [described, rights] = await Promise.all([context.get("topic", { topic: name }),
    context.get("rights_on_topic", { topic: name })]);
  const kinds = session.hasRegistry ? [...KINDS, BY_SCHEMA] : KINDS;
  const partition = choice("partition", [["", "by the key"],
    ...described.partitions.map((each) => [String(each.partition), String(each.partition)])], "");
  const key = field("Key", kinds, "null", `${name}-key`);
  const value = field("Value", kinds, "text", `${name}-value`);
  const headers = h("div", {});
  const told = h("div", { role: "status" });
  const more = h("button", { type: "button", onclick: () => {
    const header = headerRow(headers);
    headers.append(header);
    header.querySelector("input").focus();
  } }, "Add a header");
  const why = session.onlyLooks ?? (rights.may_write === false ? "this user has no right to write here (WRITE on the topic)" : null);
  const button = h("button", { disabled: why !== null }, "Write the record");
  const form = h("form", { class: "record", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true; // a second click must not write a second record
    told.replaceChildren("…");
    try {
      const written = await context.post("produce", { topic: name, partition: partition.value === "" ? null : Number(partition.value),
        key: key.given(), value: value.given(), headers: [...headers.children].map((each) => each.given()) });
      const where = `#/topic/${encodeURIComponent(name)}/records?partition=${written.partition}&offset=${written.offset}`;
      told.replaceChildren("Written to ", h("a", { href: where }, `partition ${written.partition}, offset ${written.offset}`));
    } catch (error) {
      if (error.name !== "AbortError") told.replaceChildren(alert(error.message));
    }
    button.disabled = false;
  } }, h("div", { class: "bar" }, labelled("Partition", partition)), key.element, value.element, headers,
  h("div", { class: "bar" }, more, button), why === null ? null : h("p", { class: "quiet why" }, `Not from here: ${why}.`));
  part.replaceChildren(form, told);
}

// A text with its kind, and for a schema with its subject.
function field(title, kinds, chosen, subjectOfTopic) {
  const kind = choice(title.toLowerCase(), kinds, chosen);
  const text = h("textarea", { rows: title === "Value" ? 8 : 2, spellcheck: "false" });
  const subject = h("input", { size: 30, value: subjectOfTopic });
  const textLabel = labelled(title, text);
  const subjectLabel = labelled(`Subject of the ${title.toLowerCase()}`, subject);
  const arrange = () => {
    textLabel.hidden = kind.value === "null";
    subjectLabel.hidden = kind.value !== "schema";
  };
  kind.addEventListener("change", arrange);
  arrange();
  const given = () => (kind.value === "null" ? { kind: "null" }
    : { kind: kind.value, text: text.value, ...(kind.value === "schema" ? { subject: subject.value } : {}) });
  return { given, element: h("div", {}, h("div", { class: "bar" }, labelled(`${title} is`, kind), subjectLabel), textLabel) };
}

function headerRow(headers) {
  const name = h("input", { size: 20, required: true });
  const kind = choice("header", KINDS, "text");
  const value = h("input", { size: 30 });
  const remove = h("button", { type: "button", onclick: () => row.remove() }, "Remove");
  const row = h("div", { class: "bar" }, labelled("Header", name), labelled("Its value is", kind), labelled("Its value", value), remove);
  row.given = () => ({ name: name.value, kind: kind.value, text: value.value });
  return row;
}
