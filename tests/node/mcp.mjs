// A client of the official TypeScript SDK: calls the tools of a server and prints what it sees as one line of JSON.
//
//   node mcp.mjs stdio PROGRAM ARGUMENT…
//   node mcp.mjs http URL
//
// And a server of the same SDK:
//
//   node mcp.mjs serve
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const [what, ...rest] = process.argv.slice(2);

async function serve() {
  const server = new McpServer({ name: "typescript", version: "1.0.0" });
  server.registerTool(
    "add",
    {
      description: "Add two numbers.",
      inputSchema: { a: z.number(), b: z.number() },
      outputSchema: { sum: z.number() },
    },
    async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }], structuredContent: { sum: a + b } }),
  );
  server.registerTool("fail", { description: "Fail." }, async () => {
    throw new Error("no luck");
  });
  await server.connect(new StdioServerTransport());
}

async function look() {
  const transport =
    what === "http"
      ? new StreamableHTTPClientTransport(new URL(rest[0]))
      : new StdioClientTransport({ command: rest[0], args: rest.slice(1) });
  const client = new Client({ name: "typescript", version: "1.0.0" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const added = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  const refused = await client.callTool({ name: "city", arguments: { name: "Rome" } });
  const found = await client.callTool({ name: "city", arguments: { name: "Oulu" } });
  const seen = {
    tools: tools.map((tool) => tool.name),
    added: added.content[0].text,
    refused: [refused.isError, refused.content[0].text],
    found: found.structuredContent,
  };
  console.log(JSON.stringify(seen));
  await client.close();
}

await (what === "serve" ? serve() : look());
