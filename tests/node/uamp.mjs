// JavaScript clients of served agents: `node uamp.mjs URL` prints what each function returns as one JSON object.
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory, DefaultAgentCardResolver } from "@a2a-js/sdk/client";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai6";
import OpenAI from "openai";

const url = process.argv[2];
const user = (content) => [{ role: "user", content }];
const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const WEATHER = { type: "function", function: { name: "weather", description: "Weather", parameters: CITY } };

// --- openai

const openai = (apiKey = "secret") => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

async function openaiChat() {
  const done = await openai().chat.completions.create({ model: "echo", messages: user("hello") });
  return [done.choices[0].message.content, done.choices[0].finish_reason];
}

async function openaiStream() {
  const stream = openai().chat.completions.stream({
    model: "echo", messages: user("hello"), stream_options: { include_usage: true },
  });
  let text = "";
  stream.on("content", (piece) => { text += piece; });
  const done = await stream.finalChatCompletion();
  return [text, done.choices[0].finish_reason, done.usage.total_tokens > 0];
}

async function openaiTools() {
  const run = openai().chat.completions.runTools({
    model: "caller", messages: user("weather?"),
    tools: [{ ...WEATHER, function: { ...WEATHER.function, parse: JSON.parse, function: ({ city }) => `sunny in ${city}` } }],
  });
  return run.finalContent();
}

async function openaiResponses() {
  const first = await openai().responses.create({ model: "echo", input: "one" });
  const second = await openai().responses.create({ model: "counter", input: "two", previous_response_id: first.id });
  return [first.output_text, second.output_text];
}

async function openaiErrors() {
  const found = [];
  for (const call of [
    () => openai("wrong").chat.completions.create({ model: "echo", messages: user("hi") }),
    () => openai().chat.completions.create({ model: "nobody", messages: user("hi") }),
    () => openai().chat.completions.create({ model: "echo", messages: [] }),
  ]) {
    try {
      await call();
      found.push("nothing");
    } catch (error) {
      found.push([error.constructor.name, error.status, error.code]);
    }
  }
  return found;
}

// --- the Vercel AI SDK

const provider = createOpenAICompatible({ name: "turntree", baseURL: `${url}/v1`, apiKey: "secret", includeUsage: true, supportsStructuredOutputs: true });
const weather = tool({ description: "Weather", inputSchema: jsonSchema(CITY), execute: async ({ city }) => `sunny in ${city}` });

async function aiGenerate() {
  const done = await generateText({ model: provider("echo"), prompt: "hello" });
  return [done.text, done.finishReason, done.usage.totalTokens > 0];
}

async function aiStream() {
  const result = streamText({ model: provider("echo"), prompt: "hello" });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  return [text, await result.finishReason, (await result.usage).totalTokens > 0];
}

async function aiTools() {
  const done = await generateText({ model: provider("caller"), prompt: "weather?", tools: { weather }, stopWhen: stepCountIs(3) });
  return [done.text, done.steps.length, done.steps[0].toolCalls[0].input];
}

async function aiStreamTools() {
  const result = streamText({ model: provider("caller"), prompt: "weather?", tools: { weather }, stopWhen: stepCountIs(3) });
  const kinds = new Set();
  for await (const part of result.fullStream) kinds.add(part.type);
  return [await result.text, (await result.steps).length, kinds.has("tool-call"), kinds.has("tool-result"), kinds.has("error")];
}

async function aiObject() {
  const schema = { type: "object", properties: { city: { type: "string" }, people: { type: "number" } }, required: ["city", "people"] };
  return (await generateObject({ model: provider("structured"), prompt: "Oulu", schema: jsonSchema(schema) })).object;
}

async function aiReasoning() {
  const done = await generateText({ model: provider("thinker"), prompt: "hello" });
  return [done.text, done.reasoningText];
}

async function aiLength() {
  return (await generateText({ model: provider("cut"), prompt: "hello" })).finishReason;
}

// --- @a2a-js/sdk

const fetchImpl = (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("authorization", "Bearer secret");
  return fetch(input, { ...init, headers });
};

async function a2a(agent, { legacy = false, rest = false } = {}) {
  const options = { fetchImpl, legacyCompat: { enabled: legacy } };
  const factory = new ClientFactory({
    transports: [rest ? new RestTransportFactory(options) : new JsonRpcTransportFactory(options)],
  });
  const resolver = new DefaultAgentCardResolver(options);
  const card = await resolver.resolve(`${url}/agents/${agent}/`, ".well-known/agent-card.json");
  const version = legacy ? "0.3" : "1.0";
  card.supportedInterfaces = card.supportedInterfaces.filter((found) => found.protocolVersion === version);
  return factory.createFromAgentCard(card);
}

const message = (text, ids = {}) => ({
  tenant: "", metadata: undefined, configuration: undefined,
  message: {
    messageId: crypto.randomUUID(), contextId: "", taskId: "", role: 1, metadata: undefined, extensions: [], referenceTaskIds: [],
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }], ...ids,
  },
});
const textOf = (task) => task.artifacts.flatMap((artifact) => artifact.parts).map((part) => part.content.value).join("");
const WORKING = 2;

async function a2aSends(options) {
  const client = await a2a("counter", options);
  const first = await client.sendMessage(message("one"));
  const second = await client.sendMessage(message("two", { contextId: first.contextId }));
  const read = await client.getTask({ tenant: "", id: second.id });
  return [textOf(first), textOf(second), textOf(read), read.status.state];
}

async function a2aStreams(options) {
  const client = await a2a("echo", options);
  let text = "";
  let state;
  const kinds = [];
  for await (const { payload } of client.sendMessageStream(message("hello"))) {
    kinds.push(payload.$case);
    if (payload.$case === "artifactUpdate") text += payload.value.artifact.parts.map((part) => part.content.value).join("");
    if (payload.$case === "statusUpdate") state = payload.value.status.state;
  }
  return [kinds[0], text, state];
}

async function a2aCancels(options) {
  const client = await a2a("waiter", options);
  const stream = client.sendMessageStream(message("wait"));
  const { value: { payload: { value: task } } } = await stream.next();
  for (;;) {
    const { value: { payload } } = await stream.next();
    if (payload.$case === "statusUpdate" && payload.value.status.state === WORKING) break;
  }
  const second = client.resubscribeTask({ tenant: "", id: task.id });
  const joined = (await second.next()).value.payload.$case;
  const cancelled = await client.cancelTask({ tenant: "", id: task.id, metadata: undefined });
  const ends = [];
  for (const reader of [stream, second]) {
    let last;
    for await (const { payload } of reader) last = payload.value.status.state;
    ends.push(last);
  }
  return [joined, cancelled.status.state, ends];
}

const a2aSend = () => a2aSends();
const a2aStream = () => a2aStreams();
const a2aCancel = () => a2aCancels();
const a2aRestSend = () => a2aSends({ rest: true });
const a2aRestStream = () => a2aStreams({ rest: true });
const a2aLegacySend = () => a2aSends({ legacy: true });
const a2aLegacyStream = () => a2aStreams({ legacy: true });

async function a2aMissing() {
  const client = await a2a("echo");
  try {
    await client.getTask({ tenant: "", id: "none" });
    return "nothing";
  } catch (error) {
    return error.constructor.name;
  }
}

const scenarios = {
  openaiChat, openaiStream, openaiTools, openaiResponses, openaiErrors, aiGenerate, aiStream, aiTools, aiStreamTools, aiObject,
  aiReasoning, aiLength, a2aSend, a2aStream, a2aCancel, a2aRestSend, a2aRestStream, a2aLegacySend, a2aLegacyStream, a2aMissing,
};
const results = {};
for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    results[name] = await scenario();
  } catch (error) {
    results[name] = { failed: String(error?.stack ?? error) };
  }
}
process.stdout.write(JSON.stringify(results) + "\n", () => process.exit(0));
