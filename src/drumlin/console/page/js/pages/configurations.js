// Configuration keys: those that differ from the default first, all on demand.

import { h, labelled } from "../dom.js";
import { List } from "../list.js";

export function configurations(context, found) {
  const list = context.keep(new List({ label: "Configuration", nothing: "nothing differs from the default", columns: [
    { title: "Key", text: (row) => row.key },
    { title: "Value", text: (row) => value(row) },
    { title: "Default", text: (row) => (row.is_sensitive ? "" : row.default ?? "") },
    { title: "Set for", width: "9rem", text: (row) => row.source },
    { title: "Meaning", width: "minmax(0,2fr)", text: (row) => row.documentation ?? "" },
  ] }));
  const all = h("input", { type: "checkbox" });
  const search = h("input", { type: "search", "aria-label": "Filter keys", placeholder: "filter ( / )" });
  const arrange = () => list.filter((row) => (all.checked || search.value || !row.is_default)
    && row.key.includes(search.value.trim()));
  all.addEventListener("change", arrange);
  search.addEventListener("input", arrange);
  list.set(found.configs);
  arrange();
  const differing = found.configs.filter((row) => !row.is_default).length;
  return [h("div", { class: "bar" }, search, labelled("defaults too", all, true),
    h("span", { class: "quiet" }, `${differing} of ${found.configs.length} differ from the default`)), list.element];
}

const value = (row) => (row.is_sensitive ? "(secret)" : row.value ?? "null");
