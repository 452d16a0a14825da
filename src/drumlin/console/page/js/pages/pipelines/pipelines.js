// What keeps its progress in the cluster: sinks, captures, states and followers, a list of each.

import { h } from "../../dom.js";
import { captures } from "./captures.js";
import { followers } from "./followers.js";
import { sinks } from "./sinks.js";
import { states } from "./states.js";

const TABS = [["sinks", "Sinks", sinks], ["captures", "Captures", captures], ["states", "States", states],
  ["followers", "Followers", followers]];

export async function pipelines(context) {
  const [tab = "sinks"] = context.parts;
  const [name, title, show] = TABS.find(([each]) => each === tab) ?? TABS[0];
  context.title(title);
  const tabs = h("nav", { "aria-label": "Kinds of pipelines" }, TABS.map(([each, text]) => h("a", {
    href: `#/pipelines/${each}`, "aria-current": each === name ? "page" : null }, text)));
  const part = h("div", {});
  const search = h("input", { type: "search", "aria-label": `Filter ${title.toLowerCase()}`, placeholder: "filter ( / )" });
  const told = h("span", { class: "quiet" });
  const { list, look, about } = await show(context, told);
  search.addEventListener("input", () => list.filter(search.value.trim() ? (row) => matches(row, search.value.trim()) : null));
  context.live(5, look);
  part.replaceChildren(h("div", { class: "bar" }, search, told), list.element, h("p", { class: "quiet" }, about));
  context.main.replaceChildren(h("h1", {}, title), h("div", { class: "bar" }, tabs), part);
}

const matches = (row, text) => [row.sink, row.name, row.topic, row.group].some((each) => each?.includes(text));
