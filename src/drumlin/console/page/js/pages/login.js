// The form to log in with a user of the cluster.

import { alert, h, labelled } from "../dom.js";

export function loginForm(mechanism, why, enter) {
  const user = h("input", { name: "user", autocomplete: "username", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const button = h("button", {}, "Log in");
  const failure = h("div", {}, why ? alert(why) : null);
  const form = h("form", { class: "login", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await enter(user.value, password.value);
    } catch (error) {
      failure.replaceChildren(alert(error.message));
      button.disabled = false;
      password.focus();
    }
  } }, labelled("User of the cluster", user), labelled("Password", password), button,
  h("p", { class: "quiet" }, `The brokers check it (${mechanism}); the console keeps it in memory until you log out.`));
  return [h("h1", {}, "Log in"), failure, form];
}
