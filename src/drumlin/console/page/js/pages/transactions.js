// Transactional ids; open transactions first, with how long they last already.

import { h } from "../dom.js";
import { List } from "../list.js";
import { count, duration } from "../words.js";

export async function transactions(context) {
  const { main, get } = context;
  const age = (row) => (row.open?.start_ms ? Date.now() - row.open.start_ms : null);
  const list = context.keep(new List({ label: "Transactions", nothing: "no transactions", columns: [
    { title: "Transactional id", width: "minmax(0,2fr)", text: (row) => row.transactional_id },
    { title: "State", text: (row) => row.state },
    { title: "Producer", isNumber: true, text: (row) => row.producer_id, by: (row) => row.producer_id },
    { title: "Open for", isNumber: true, text: (row) => duration(age(row)), by: age,
      isBad: (row) => row.open !== null && age(row) > row.open.timeout_ms },
    { title: "Timeout", isNumber: true, text: (row) => duration(row.open?.timeout_ms), by: (row) => row.open?.timeout_ms },
    { title: "In", width: "minmax(0,2fr)", text: (row) => row.open?.partitions.join(", ") ?? "" },
  ] }));
  const search = h("input", { type: "search", "aria-label": "Filter transactions", placeholder: "filter ( / )" });
  search.addEventListener("input", () => list.filter((row) => row.transactional_id.includes(search.value.trim())));
  const told = h("span", { class: "quiet" });
  const look = async (options) => {
    const found = await get("transactions", {}, options);
    list.set(found.transactions);
    const open = found.transactions.filter((row) => row.open).length;
    told.textContent = `${count(open)} open${found.not_shown ? `, ${count(found.not_shown)} ids are not shown` : ""}`;
  };
  await look();
  context.title("Transactions");
  context.live(5, look);
  main.replaceChildren(h("h1", {}, "Transactions"), h("div", { class: "bar" }, search, told), list.element);
}
