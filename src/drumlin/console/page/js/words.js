// Numbers, sizes, times and bytes as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const counted = new Intl.NumberFormat("en");

export function count(number) {
  return number === null || number === undefined ? "–" : counted.format(number);
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let unit = 0;
  let number = bytes;
  for (; number >= 1024 && unit < UNITS.length - 1; unit++) number /= 1024;
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${UNITS[unit]}`;
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  return perSecond >= 100 || perSecond === 0 ? count(Math.round(perSecond)) : perSecond.toFixed(1);
}

export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const date = new Date(Number(ms));
  if (Number.isNaN(date.getTime())) return String(ms);
  return date.toISOString().replace("T", " ").replace("Z", "");
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Number(ms) / 1000;
  if (seconds >= 1e10) return "for ever";
  const steps = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [step, unit] of steps) if (seconds >= step) return `${(seconds / step).toFixed(1)} ${unit}`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

// How long ago a moment was, by this browser's clock.
export function age(ms) {
  if (ms === null || ms === undefined) return "–";
  return `${duration(Math.max(Date.now() - Number(ms), 0))} ago`;
}

export function bytesOf(field) {
  return Uint8Array.from(atob(field.base64), (each) => each.charCodeAt(0));
}

// The text of bytes; null if they are no UTF-8. What was cut may end within a character.
export function textOf(field) {
  const bytes = bytesOf(field);
  const isCut = bytes.length < field.size_bytes;
  for (let less = 0; less <= (isCut ? 3 : 0) && less <= bytes.length; less++) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, bytes.length - less));
    } catch {
      continue;
    }
  }
  return null;
}

// Control characters as their pictures, and others that are not seen by their numbers: nothing is invisible, nor turns the text around it.
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (each) => String.fromCharCode(0x2400 + each.charCodeAt(0)))
    .replace(/[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu, (each) => {
      const digits = each.codePointAt(0).toString(16).padStart(4, "0");
      return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits}`;
    });
}

export function brief(field, format) {
  if (field === null) return "null";
  const text = format === "hex" ? null : textOf(field);
  if (text !== null) return visible(text.slice(0, 300).replace(/\s+/g, " "));
  return Array.from(bytesOf(field).subarray(0, 100), (each) => each.toString(16).padStart(2, "0")).join(" ");
}

// A field in a format: "auto", "text", "json" or "hex"; says so if it is not that.
export function whole(field, format) {
  if (field === null) return "null";
  const text = format === "hex" ? null : textOf(field);
  const isCut = bytesOf(field).length < field.size_bytes;
  if (format === "json" || (format === "auto" && text !== null && /^\s*[[{]/.test(text))) {
    const pretty = text === null || isCut ? null : prettyJson(text);
    if (pretty !== null) return visible(pretty);
    if (format === "json") return `(${isCut ? "only its beginning is here" : "no JSON"})\n${text === null ? dump(field) : visible(text)}`;
  }
  if (text !== null) return visible(text);
  return format === "text" ? `(no UTF-8)\n${dump(field)}` : dump(field);
}

// A text that may be JSON, with line breaks if it is.
export function wholeText(text) {
  return visible(prettyJson(text) ?? text);
}

const DUMPED_MAX = 64 * 1024;

function dump(field) {
  const bytes = bytesOf(field).subarray(0, DUMPED_MAX);
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = Array.from(bytes.subarray(at, at + 16));
    const digits = part.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const letters = part.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits}  ${letters}`);
  }
  return lines.join("\n");
}

// JSON with line breaks; numbers and names stay as they are written, as parsing would round and drop them.
function prettyJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, 200))}`;
  const parts = [];
  tokens.forEach((token, index) => {
    const before = tokens[index - 1];
    if (token === "}" || token === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") parts.push(line());
    } else if (before === "{" || before === "[") {
      parts.push(line());
    }
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    if (token === ",") parts.push(line());
  });
  return parts.join("");
}
