// The form to log in with a user of the cluster, a token, or the key of a console for one user.

import { alert, h, labelled } from "../dom.js";

const FORMS = {
  OAUTHBEARER: {
    fields: () => [["token", "Token", { type: "password", autocomplete: "off", spellcheck: "false" }]],
    told: "The brokers check it (OAUTHBEARER); the console keeps it in memory until it expires or you log out.",
  },
  KEY: {
    fields: () => [["key", "Key of this console", { type: "password", autocomplete: "off" }]],
    told: "The console has shown it where it was started, as the end of its address.",
  },
};

const PASSWORD = (mechanism) => ({
  fields: () => [["user", "User of the cluster", { autocomplete: "username" }],
    ["password", "Password", { type: "password", autocomplete: "current-password" }]],
  told: `The brokers check it (${mechanism}); the console keeps it in memory until you log out.`,
});

export function loginForm(mechanism, why, enter) {
  const isPasted = Object.hasOwn(FORMS, mechanism);
  const { fields, told } = isPasted ? FORMS[mechanism] : PASSWORD(mechanism);
  const inputs = fields().map(([name, title, properties]) => [title, h("input", { name, required: true, ...properties })]);
  const button = h("button", {}, "Log in");
  const failure = h("div", {}, why ? alert(why) : null);
  const form = h("form", { class: "login", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await enter(Object.fromEntries(inputs.map(([, input]) => [input.name, isPasted ? input.value.trim() : input.value])));
    } catch (error) {
      failure.replaceChildren(alert(error.message));
      button.disabled = false;
      inputs.at(-1)[1].focus();
    }
  } }, inputs.map(([title, input]) => labelled(title, input)), button, h("p", { class: "quiet" }, told));
  return [h("h1", {}, "Log in"), failure, form];
}
