// A chat as useChat holds it, of three majors of the Vercel AI SDK, against a server. One JSON line in, one out:
//
//   {"sdk": 6, "api": "http://…", "id": "chat-1", "steps": [{"send": {"text": "Hi"}}, {"approve": "c1"},
//    {"deny": "c1", "reason": "…"}, {"regenerate": {}}, {"result": "c1", "tool": "pay", "output": true}]}
//
// The answer has the messages of the browser after each step, the bodies that it has posted, and the errors.
import { createInterface } from "node:readline";

const packages = { 5: await import("ai5"), 6: await import("ai6"), 7: await import("ai7") };

async function converse({ sdk, api, id, steps, messages = [] }) {
  const ai = packages[sdk];
  const [bodies, errors, after] = [[], [], []];
  const fetch = (url, init) => {
    bodies.push(JSON.parse(init.body));
    return globalThis.fetch(url, init);
  };
  const copy = (value) => structuredClone(value);
  const state = {
    status: "ready",
    error: undefined,
    messages,
    pushMessage(message) { this.messages = this.messages.concat(message); },
    popMessage() { this.messages = this.messages.slice(0, -1); },
    replaceMessage(index, message) { this.messages = this.messages.with(index, copy(message)); },
    snapshot: copy,
  };
  let finished = () => {};
  class Chat extends ai.AbstractChat {}
  const complete = [
    ai.lastAssistantMessageIsCompleteWithApprovalResponses,
    sdk === 5 ? ai.lastAssistantMessageIsCompleteWithToolCalls : undefined,
  ].filter(Boolean);
  const chat = new Chat({
    id,
    state,
    transport: new ai.DefaultChatTransport({ api, fetch }),
    onError: (error) => errors.push(String(error?.message ?? error)),
    onFinish: () => finished(),
    sendAutomaticallyWhen: (options) => complete.some((is) => is(options)),
  });
  // An answer to a tool call makes the chat post by itself, if it was the last one that was missing.
  const untilPosted = async (act) => {
    const posted = bodies.length;
    const done = new Promise((resolve) => { finished = resolve; });
    await act();
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (bodies.length > posted || chat.status !== "ready") await done;
    finished = () => {};
  };
  for (const step of steps) {
    if (step.send) await chat.sendMessage(step.send);
    if (step.regenerate) await chat.regenerate(step.regenerate);
    if (step.approve) await untilPosted(() => chat.addToolApprovalResponse({ id: step.approve, approved: true }));
    if (step.deny) {
      await untilPosted(() => chat.addToolApprovalResponse({ id: step.deny, approved: false, reason: step.reason }));
    }
    if (step.result) {
      await untilPosted(() => chat.addToolResult({ toolCallId: step.result, tool: step.tool, output: step.output }));
    }
    after.push(copy(chat.messages));
  }
  return { messages: after, bodies, errors, status: chat.status };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = await converse(JSON.parse(line));
  } catch (error) {
    answer = { errors: [String(error?.stack ?? error)] };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
