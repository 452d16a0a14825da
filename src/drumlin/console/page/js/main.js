// The page as a whole: who is logged in, which page is shown, keys, and when to look again.

import * as api from "./api.js";
import { alert, h } from "./dom.js";
import { forget } from "./history.js";
import { access } from "./pages/access.js";
import { cluster, broker } from "./pages/cluster.js";
import { groups, group } from "./pages/groups.js";
import { loginForm } from "./pages/login.js";
import { capture } from "./pages/pipelines/captures.js";
import { pipelines } from "./pages/pipelines/pipelines.js";
import { sink } from "./pages/pipelines/sinks.js";
import { state } from "./pages/pipelines/states.js";
import { topic } from "./pages/topic.js";
import { topics } from "./pages/topics.js";
import { transactions } from "./pages/transactions.js";
import { visible } from "./words.js";

const NAVIGATION = [
  ["cluster", "Cluster"], ["topics", "Topics"], ["groups", "Groups"], ["share", "Share groups"],
  ["transactions", "Transactions"], ["pipelines", "Pipelines"], ["access", "Access"],
];
const PAGES = { cluster, broker, topics, topic, groups, group, transactions, access, share: groups, pipelines, sink, capture, state };
const UP = { topic: "topics", group: "groups", broker: "cluster", sink: "pipelines/sinks", capture: "pipelines/captures",
  state: "pipelines/states" };
const BESIDE = { topic: "topics", group: "groups", broker: "cluster", sink: "pipelines", capture: "pipelines", state: "pipelines" };

// Who is logged in: all tabs have one session, as they have one cookie.
const WHO = "drumlin-who";

const main = document.getElementById("main");
const status = document.getElementById("status");
const keys = document.getElementById("keys");
const KEY = "#key=";
let about = null;
let shown = null; // the page: {name, lists, refresh, everyS, timer, aborted}

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
  return { name: parts[0] || "cluster", parts: parts.slice(1), query: new URLSearchParams(query ?? "") };
}

function leave() {
  if (!shown) return;
  clearTimeout(shown.timer);
  shown.aborted.abort();
  shown.lists.forEach((each) => each.close());
  shown = null;
}

async function show() {
  if (location.hash && !location.hash.startsWith("#/")) return;
  leave();
  const { name, parts, query } = place();
  const aborted = new AbortController();
  const page = { name, lists: [], refresh: null, everyS: 0, timer: 0, aborted, focus: null };
  shown = page;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === (BESIDE[name] ?? name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const context = {
    main, parts, query, name,
    get: (path, parameters, options) => api.get(path, parameters, { signal: aborted.signal, ...options }),
    post: (path, body) => api.post(path, body, { signal: aborted.signal }),
    keep: (list) => {
      page.lists.push(list);
      return list;
    },
    live: (everyS, refresh) => Object.assign(page, { everyS, refresh }),
    session: known() ?? {},
    title: (text) => { document.title = visible(`${text} – Drumlin console`); },
  };
  main.replaceChildren(h("p", { class: "quiet" }, "…"));
  try {
    if (!Object.hasOwn(PAGES, name)) throw new api.Failure(`there is no page ${name}`, 404);
    await PAGES[name](context);
    if (shown !== page) return;
    main.focus({ preventScroll: true });
    schedule(page, 0);
  } catch (error) {
    if (shown === page) failed(error, () => main.replaceChildren(h("h1", {}, "Not shown"), alert(error.message)));
  }
}

function failed(error, tell) {
  if (error.name === "AbortError") return;
  if (error.status === 401) begin(error.message === "not logged in" ? null : error.message);
  else tell();
}

// The next look comes after a pause, longer where looks take long; none while nobody looks.
function schedule(page, tookS) {
  clearTimeout(page.timer);
  if (!page.refresh || document.hidden) return;
  page.timer = setTimeout(() => look(page, true), 1000 * Math.max(page.everyS, 10 * tookS));
}

async function look(page, isLive) {
  if (shown !== page || !page.refresh) return;
  clearTimeout(page.timer);
  const begun = performance.now();
  try {
    await page.refresh({ isLive });
    if (shown === page) status.textContent = `as of ${new Date().toTimeString().slice(0, 8)}`;
  } catch (error) {
    if (shown === page) failed(error, () => { status.textContent = error.message; });
  }
  if (shown === page) schedule(page, (performance.now() - begun) / 1000);
}

async function begin(why) {
  leave();
  status.textContent = "";
  try {
    about ??= await api.get("about");
    if (about.login === null) {
      welcome(await api.login({}));
      return;
    }
    const key = keyOfAddress();
    if (about.login === "KEY" && key) {
      welcome(await api.login({ key }));
      return;
    }
  } catch (error) {
    main.replaceChildren(h("h1", {}, "Not connected"), alert(error.message),
      h("p", {}, h("button", { type: "button", onclick: () => begin(null) }, "Try again")));
    return;
  }
  document.getElementById("nav").hidden = true;
  document.getElementById("logout").hidden = true;
  document.getElementById("who").textContent = "";
  document.title = "Log in – Drumlin console";
  main.replaceChildren(...loginForm(about.login, why, async (credentials) => welcome(await api.login(credentials))));
  main.querySelector("input").focus();
}

// The key in the address that the console has shown, which is taken out of it at once.
function keyOfAddress() {
  if (!location.hash.startsWith(KEY)) return null;
  const key = location.hash.slice(KEY.length);
  history.replaceState(null, "", location.pathname);
  return key;
}

function welcome(session) {
  const who = session.user === null ? session.cluster : `${session.user} @ ${session.cluster}`;
  const { only_looks: onlyLooks, has_registry: hasRegistry } = session;
  localStorage.setItem(WHO, JSON.stringify({ who, hasUser: session.user !== null, onlyLooks, hasRegistry }));
  welcomed();
}

function welcomed() {
  greet();
  show();
}

// The session as it was told at its beginning.
function known() {
  try {
    return JSON.parse(localStorage.getItem(WHO));
  } catch {
    return null;
  }
}

function greet() {
  const session = known();
  document.getElementById("who").textContent = visible(`${session?.who ?? ""}${session?.onlyLooks ? " · read-only" : ""}`);
  document.getElementById("logout").hidden = !session?.hasUser;
  const nav = document.getElementById("nav");
  nav.hidden = false;
  nav.replaceChildren(...NAVIGATION.map(([name, text]) => h("a", { href: `#/${name}`, "data-page": name }, text)));
}

function theme(chosen) {
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (chosen) document.documentElement.dataset.theme = chosen;
  document.getElementById("theme").textContent = isDark ? "Light" : "Dark";
  return isDark;
}

document.getElementById("theme").addEventListener("click", () => {
  const chosen = theme(localStorage.getItem("drumlin-theme")) ? "light" : "dark";
  localStorage.setItem("drumlin-theme", chosen);
  theme(chosen);
});
document.getElementById("help").addEventListener("click", () => keys.showModal());
document.getElementById("logout").addEventListener("click", async () => {
  leave();
  try {
    await api.logout();
  } catch {
    // The session is over anyway.
  }
  localStorage.removeItem(WHO);
  forget();
  begin(null);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const isTyping = event.target instanceof Element && event.target.matches("input, select, textarea");
  const list = shown?.lists.find((each) => each.element.isConnected);
  if (event.key === "Escape") {
    if (isTyping) event.target.blur();
    else if (shown && UP[shown.name]) location.hash = `#/${UP[shown.name]}`;
    return;
  }
  if (isTyping) return;
  if (event.key === "/") main.querySelector("input[type=search]")?.focus();
  else if (event.key === "j") list?.move(1);
  else if (event.key === "k") list?.move(-1);
  else if (event.key === "r" && shown) look(shown, false);
  else if (event.key === "?") keys.showModal();
  else return;
  event.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (!shown) return;
  if (document.hidden) clearTimeout(shown.timer);
  else look(shown, true);
});
addEventListener("hashchange", show);
// Another tab has logged in or out: what is shown here, and done, is that user's from now on.
addEventListener("storage", ({ key }) => {
  if (key !== WHO) return;
  forget();
  if (known()) welcomed();
  else begin(null);
});

theme(localStorage.getItem("drumlin-theme"));
greet();
if (known() && !location.hash.startsWith(KEY)) show();
else begin(null);
