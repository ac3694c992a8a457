// Runs the script of examples/chat.html without a browser: a document of the few members that the page uses.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [page, address, ...texts] = process.argv.slice(2);
const [, script] = readFileSync(page, "utf8").match(/<script>([\s\S]*)<\/script>/);
if (/\b(src|href)=/.test(readFileSync(page, "utf8"))) throw new Error("the page loads another file");

const element = () => ({
  value: "", textContent: "", className: "", disabled: false, children: [],
  append(child) { this.children.push(child); },
  replaceChildren() { this.children = []; },
  get lastChild() { return this.children.at(-1); },
  scrollIntoView() {}, focus() {},
});
const stored = new Map();
const sessionStorage = { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value) };

function open() {
  const elements = new Map();
  const getElementById = (id) => elements.get(id) ?? elements.set(id, element()).get(id);
  const document = { getElementById, createElement: element };
  const sockets = [];
  class Socket extends WebSocket {
    constructor(url) { super(url); sockets.push(this); }
  }
  vm.runInNewContext(script, { document, sessionStorage, WebSocket: Socket, URL, crypto, setTimeout, JSON, Math, Date });
  return { find: getElementById, sockets };
}

async function until(condition, what) {
  for (let waited = 0; !condition(); waited += 10) {
    if (waited > 20_000) throw new Error(`waited too long: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

const shown = (tab) => tab.find("log").children.map((child) => ({ kind: child.className, text: child.textContent }));
let tab = open();
tab.find("address").value = address;
tab.find("connect").onclick();
for (const text of texts) {
  const before = shown(tab).length;
  await until(() => tab.find("state").textContent === "connected" && !tab.find("send").disabled, "ready");
  tab.find("text").value = text;
  tab.find("form").onsubmit({ preventDefault() {} });
  await until(() => !tab.find("send").disabled && shown(tab).length > before + 1, `the answer to ${text}`);
}
const first = shown(tab);
// The page is loaded again: the texts and the session are still there.
tab = open();
await until(() => tab.find("state").textContent === "connected", "the reload");
console.log(JSON.stringify({ shown: first, again: shown(tab) }));
process.exit(0);
