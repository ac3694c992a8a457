// Written by turntree: `turntree harness uninstall opencode` removes it.
import { spawnSync } from "node:child_process"

const command = COMMAND

function ask(event) {
  const input = JSON.stringify(event)
  const run = spawnSync(command, { shell: true, input, encoding: "utf8", timeout: 10000 })
  const failed = run.error || (run.status !== 0 && run.status !== 2)
  if (failed) return { decision: "deny", reason: "turntree could not run" }
  try {
    return JSON.parse(run.stdout || "{}")
  } catch {
    return { decision: "deny", reason: "turntree gave no reply" }
  }
}

export const Turntree = async ({ client, directory }) => {
  // What the model reads at the start of a session, by session.
  const contexts = new Map()
  const held = new Set()
  // Sessions of subagents end by themselves.
  const children = new Set()

  return {
    "tool.execute.before": async (input, output) => {
      const call = { sessionID: input.sessionID, tool: input.tool, args: output.args, directory }
      const reply = ask({ event: "tool.execute.before", ...call })
      if (reply.decision === "deny") throw new Error(reply.reason)
    },
    "tool.execute.after": async (input, output) => {
      const call = { sessionID: input.sessionID, tool: input.tool, args: input.args || {}, directory }
      const reply = ask({ event: "tool.execute.after", ...call })
      // Only the output of the call reaches the model here.
      if (reply.reason && output) output.output = `${output.output ?? ""}\n${reply.reason}`
    },
    "experimental.chat.system.transform": async (input, output) => {
      const sessionID = input.sessionID || "?"
      if (!contexts.has(sessionID)) contexts.set(sessionID, ask({ event: "session.created", sessionID, directory }).context)
      if (contexts.get(sessionID)) output.system.push(contexts.get(sessionID))
    },
    "experimental.session.compacting": async (input, output) => {
      const reply = ask({ event: "experimental.session.compacting", sessionID: input.sessionID, directory })
      if (reply.context) output.context.push(reply.context)
    },
    event: async ({ event }) => {
      const sessionID = event.properties?.sessionID || event.properties?.info?.id
      if (event.type === "session.created" && event.properties?.info?.parentID) children.add(sessionID)
      if (event.type === "session.idle" && !children.has(sessionID)) {
        const reply = ask({ event: "session.idle", sessionID, directory, stop_hook_active: held.has(sessionID) })
        if (reply.decision !== "deny") return
        // A turn that has ended cannot be held: the reason starts another one.
        held.add(sessionID)
        await client.session.promptAsync({ path: { id: sessionID }, body: { parts: [{ type: "text", text: reply.reason }] } })
      }
      if (event.type === "session.deleted") ask({ event: "session.deleted", sessionID, directory })
    },
  }
}
