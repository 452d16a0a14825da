// Groups that follow compacted topics: materializations, landings that show a group, and other readers.

import { latestRate, note } from "../../history.js";
import { List } from "../../list.js";
import { count, rate } from "../../words.js";

const ABOUT = "Materializations, and landings with --group, are consumer groups like any other for the cluster: it does not know what they are, "
  + "nor their stores, unless the client id says so (drumlin-materialize). drumlin materialize --status and drumlin land --status ask the stores, whose own positions count. "
  + "Tables that follow a topic in a process (client.table), and landings without a group, commit nothing: nobody sees them here.";

export async function followers(context, told) {
  const name = (row) => `follower ${row.group} ${row.topic}`;
  const list = context.keep(new List({ label: "Followers", nothing: "no group has offsets of a compacted topic", sortedBy: 1, columns: [
    { title: "Group", width: "minmax(0,2fr)", text: (row) => row.group, href: (row) => `#/group/${encodeURIComponent(row.group)}` },
    { title: "Topic", width: "minmax(0,2fr)", text: (row) => row.topic, href: (row) => `#/topic/${encodeURIComponent(row.topic)}` },
    { title: "State", width: "6rem", text: (row) => row.state ?? "–" },
    { title: "Partitions", width: "7rem", isNumber: true, text: (row) => `${row.followed} of ${row.partitions}`, by: (row) => row.followed,
      isBad: (row) => row.followed < row.partitions },
    { title: "Lag", width: "7rem", isNumber: true, text: (row) => count(row.lag), by: (row) => row.lag },
    { title: "Offsets/s", width: "7rem", isNumber: true, text: (row) => rate(latestRate(name(row))), by: (row) => latestRate(name(row)) },
    { title: "Members", width: "6rem", isNumber: true, text: (row) => count(row.members), by: (row) => row.members },
    { title: "Client ids", text: (row) => row.client_ids.join(", ") },
  ] }));
  const look = async (options) => {
    const found = await context.get("followers", {}, options);
    for (const row of found.followers) note(name(row), row.offsets);
    list.set(found.followers);
    told.textContent = [`${count(found.followers.length)} followers`,
      found.not_shown ? `${count(found.not_shown)} more are not shown` : "",
      found.groups_not_asked ? `${count(found.groups_not_asked)} groups were not asked` : "",
      found.unknown ? `of ${count(found.unknown)} topics the configuration may not be seen` : ""].filter(Boolean).join("; ");
  };
  await look();
  return { list, look, about: ABOUT };
}
