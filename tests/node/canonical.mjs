// RFC 8785 as a browser would do it, one JSON document a line. `JSON.stringify` is where the RFC takes numbers and
// strings from; what a page cannot hold is gone before: half surrogate pairs, and members called __proto__.
import { createInterface } from "node:readline";

const HALF = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const wellFormed = (text) => text.replace(HALF, "\uFFFD");

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "string") return JSON.stringify(wellFormed(value));
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = new Map();
  for (const [key, member] of Object.entries(value)) if (key !== "__proto__") members.set(wellFormed(key), member);
  const sorted = [...members].sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${sorted.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(",")}}`;
}

for await (const line of createInterface({ input: process.stdin })) console.log(canonical(JSON.parse(line)));
