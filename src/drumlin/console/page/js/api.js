// Requests to the console's server. The session's token is known to this page's origin only.

import { visible } from "./words.js";

const TOKEN = "drumlin-token";

export class Failure extends Error {
  constructor(message, status) {
    super(visible(message));
    this.status = status;
  }
}

async function answered(response) {
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    throw new Failure(`the console answers with status ${response.status}`, response.status);
  }
  if (!response.ok) throw new Failure(answer.error ?? `status ${response.status}`, response.status);
  return answer;
}

function headers(more) {
  const token = localStorage.getItem(TOKEN);
  return { ...(token ? { "x-drumlin-token": token } : {}), ...more };
}

async function sent(path, options) {
  try {
    return await fetch(path, { ...options, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("the console does not answer", 0);
  }
}

export async function get(path, parameters, { signal, isLive } = {}) {
  const given = Object.entries(parameters ?? {})
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((each) => [name, each]))
    .filter(([, value]) => value !== null && value !== undefined);
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  return answered(await sent(`/api/${path}${query}`, { headers: headers(isLive ? { "x-drumlin-live": "1" } : {}), signal }));
}

export async function post(path, body, { signal } = {}) {
  const content = headers({ "content-type": "application/json" });
  return answered(await sent(`/api/${path}`, { method: "POST", headers: content, body: JSON.stringify(body), signal }));
}

export async function login(credentials) {
  const session = await post("login", credentials);
  localStorage.setItem(TOKEN, session.token);
  return session;
}

export async function logout() {
  try {
    await post("logout", {});
  } finally {
    localStorage.removeItem(TOKEN);
  }
}
