// Makes elements. Text becomes text nodes and nothing else: there is no way to markup here. Names come from anyone, so nothing
// in a text is invisible.

import { visible } from "./words.js";

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (["value", "checked", "selected", "disabled", "hidden"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false)
    .map((each) => (each instanceof Node ? each : document.createTextNode(visible(String(each))))));
  return element;
}

export function figures(pairs) {
  return h("dl", { class: "figures" },
    pairs.map(([name, value, isBad]) => h("div", {}, h("dt", {}, name), h("dd", { class: isBad ? "bad" : null }, value))));
}

export function alert(text) {
  return h("p", { role: "alert" }, text);
}

let labels = 0;

export function labelled(text, control, isInline) {
  control.id = `control-${labels++}`;
  const label = h("label", { for: control.id }, text);
  return h("span", { class: isInline ? "field inline" : "field" }, isInline ? [control, label] : [label, control]);
}

export function choice(name, options, chosen) {
  return h("select", { name },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}
