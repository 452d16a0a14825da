// The cluster, its brokers, and a broker's configuration.

import { figures, h } from "../dom.js";
import { List } from "../list.js";
import { count, size } from "../words.js";
import { configurations } from "./configurations.js";

export async function cluster(context) {
  const { main, get } = context;
  const list = context.keep(new List({ label: "Brokers", columns: [
    { title: "Broker", width: "6rem", text: (row) => row.id, by: (row) => row.id, href: (row) => `#/broker/${row.id}` },
    { title: "Address", text: (row) => `${row.host}:${row.port}` },
    { title: "Rack", width: "6rem", text: (row) => row.rack ?? "" },
    { title: "Leads", width: "6rem", isNumber: true, text: (row) => count(row.leaders), by: (row) => row.leaders },
    { title: "Replicas", width: "6rem", isNumber: true, text: (row) => count(row.replicas), by: (row) => row.replicas },
    { title: "Used", width: "7rem", isNumber: true, text: (row) => size(used(row)), by: used },
    { title: "Free", width: "7rem", isNumber: true, text: (row) => size(free(row)), by: free },
    { title: "State", text: (row) => state(row), isBad: (row) => state(row) !== "" },
  ] }));
  const summary = h("div", {});
  const look = async (options) => {
    const found = await get("cluster", {}, options);
    summary.replaceChildren(figures([
      ["Cluster id", found.cluster_id], ["Controller", found.controller_id], ["Topics", count(found.topics)],
      ["Partitions", count(found.partitions)],
      ["Under-replicated", count(found.under_replicated), found.under_replicated > 0],
      ["Without leader", count(found.offline), found.offline > 0],
    ]));
    list.set(found.brokers);
  };
  await look();
  context.title("Cluster");
  context.live(5, look);
  main.replaceChildren(h("h1", {}, "Cluster"), summary, h("h2", {}, "Brokers"), list.element);
}

const sum = (row, name) => {
  const known = row.directories.map((each) => each[name]).filter((each) => each !== null);
  return known.length ? known.reduce((total, each) => total + each, 0) : null;
};
const used = (row) => sum(row, "used_bytes");
const free = (row) => sum(row, "usable_bytes");
const state = (row) => [row.error, ...row.directories.filter((each) => each.error).map((each) => `${each.path}: ${each.error}`)]
  .filter(Boolean).join("; ");

export async function broker(context) {
  const { main, get, parts } = context;
  context.title(`Broker ${parts[0]}`);
  const shownConfigs = configurations(context, await get("broker", { id: parts[0] }));
  main.replaceChildren(h("h1", {}, `Broker ${parts[0]}`), ...shownConfigs);
}
