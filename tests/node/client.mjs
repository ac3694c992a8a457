// What the real client makes of streams and messages: one JSON line in, one JSON line out.
//
//   {"do": "read", "sdk": 7, "body": "data: …", "prior": [...]}  the body of a response, as useChat reads it; "bytes" is
//                                                                the same in base64, for what is no text
//   {"do": "validate", "sdk": 6, "messages": [...]}              messages, as a chat loads them
//   {"do": "serve", "sdk": 6, "turns": [[...]], "prompt": "…"}   what the real server sends of what a model says
import { createInterface } from "node:readline";

const packages = { 5: await import("ai5"), 6: await import("ai6"), 7: await import("ai7") };
const mocks = { 5: await import("ai5/test"), 6: await import("ai6/test"), 7: await import("ai7/test") };

async function read({ sdk, body, bytes, prior }) {
  const ai = packages[sdk];
  const sent = body ?? Buffer.from(bytes, "base64");
  const fetch = async () => new Response(sent, { headers: { "content-type": "text/event-stream" } });
  const transport = new ai.DefaultChatTransport({ api: "http://localhost/chat", fetch });
  const messages = prior ?? [{ id: "u", role: "user", parts: [{ type: "text", text: "hi" }] }];
  const stream = await transport.sendMessages({
    chatId: "c", messages, trigger: "submit-message", messageId: undefined, abortSignal: undefined,
  });
  const errors = [];
  const last = prior?.at(-1);
  let message = null;
  try {
    const snapshots = ai.readUIMessageStream({
      stream,
      message: last?.role === "assistant" ? last : undefined,
      onError: (error) => errors.push(String(error?.message ?? error)),
    });
    for await (const snapshot of snapshots) message = snapshot;
  } catch (error) {
    errors.push(String(error?.message ?? error));
  }
  return { message, errors };
}

async function validate({ sdk, messages, convert = true }) {
  const ai = packages[sdk];
  try {
    await ai.validateUIMessages({ messages });
    if (convert) await ai.convertToModelMessages(messages);
    return { errors: [] };
  } catch (error) {
    return { errors: [String(error?.message ?? error)] };
  }
}

async function serve({ sdk, turns, prompt }) {
  const ai = packages[sdk];
  const Mock = mocks[sdk].MockLanguageModelV4 ?? mocks[sdk].MockLanguageModelV3 ?? mocks[sdk].MockLanguageModelV2;
  let turn = 0;
  const model = new Mock({
    doStream: async () => ({ stream: ai.simulateReadableStream({ chunks: turns[turn++], chunkDelayInMs: null, initialDelayInMs: null }) }),
  });
  const city = ai.jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"] });
  const tools = {
    weather: ai.tool({ description: "Weather", inputSchema: city, execute: async ({ city }) => ({ city, degrees: 18 }) }),
    broken: ai.tool({ description: "Fails", inputSchema: city, execute: async () => { throw new Error("no luck"); } }),
  };
  const result = ai.streamText({ model, prompt, tools, stopWhen: ai.stepCountIs(5), onError: () => {} });
  const response = result.toUIMessageStreamResponse({ generateMessageId: () => "m1" });
  return { body: await response.text(), errors: [] };
}

const doing = { read, validate, serve };
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await doing[request.do](request);
  } catch (error) {
    answer = { errors: [String(error?.stack ?? error)] };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
