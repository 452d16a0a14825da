// Users, ACLs and quotas, as far as this user may see them.

import { h } from "../dom.js";
import { List } from "../list.js";
import { count } from "../words.js";

const PARTS = [
  ["users", "Users", "no users with a password in the cluster", [
    { title: "User", text: (row) => row.user },
    { title: "Passwords", width: "minmax(0,3fr)", text: (row) => row.mechanisms.join("; ") },
  ]],
  ["acls", "ACLs", "no ACLs", [
    { title: "Principal", text: (row) => row.principal },
    { title: "May", width: "7rem", text: (row) => row.permission, isBad: (row) => row.permission === "deny" },
    { title: "Operation", text: (row) => row.operation },
    { title: "Kind", text: (row) => row.kind },
    { title: "Name", text: (row) => (row.pattern === "prefixed" ? `${row.name}…` : row.name) },
    { title: "From", width: "8rem", text: (row) => row.host },
  ]],
  ["quotas", "Quotas", "no quotas", [
    { title: "Of", width: "minmax(0,2fr)", text: (row) => row.entity.map(([kind, name]) => `${kind} ${name ?? "(default)"}`).join(", ") },
    { title: "Key", text: (row) => row.key },
    { title: "Value", isNumber: true, text: (row) => count(row.value), by: (row) => row.value },
  ]],
];

export async function access(context) {
  const { main, get } = context;
  const found = await get("access");
  context.title("Access");
  const shown = PARTS.flatMap(([part, title, nothing, columns]) => {
    const { rows, error, not_shown: more } = found[part];
    const list = context.keep(new List({ label: title, nothing: error ?? nothing, columns }));
    list.set(rows);
    return [h("h2", {}, title), list.element, more ? h("p", { class: "quiet" }, `${count(more)} more are not shown`) : ""];
  });
  main.replaceChildren(h("h1", {}, "Access"), ...shown.filter((each) => each !== ""));
}
