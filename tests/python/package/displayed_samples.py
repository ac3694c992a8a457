"""Objects of public classes, made without network, with a given text where their attributes can have it."""

import datetime
import functools
import itertools
import pathlib

from test_data_face import samples

from turntree import (
    AgentHooks,
    Limits,
    RunContext,
    ToolContext,
    agent,
    durable,
    execution,
    mcp,
    middleware,
    notebook,
    query,
    session,
    store,
    testing,
    thread_protocol,
    uaip,
    uamp,
    upp,
)
from turntree.harness import (
    Action,
    Change,
    Conflict,
    Coordination,
    Decision,
    Forecast,
    Gate,
    HookReply,
    Lease,
    MatchedRule,
    Overlaps,
    Replay,
    Worktree,
    Worktrees,
    guard,
)
from turntree.upp import files, native, scripted
from turntree.upp import middleware as calls

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class Vendor:
    """The smallest model."""

    async def generate(self, request):
        """Return an answer."""
        return "x"

    async def embed(self, request):
        """Return a vector."""
        return [[0.5] for _ in request.inputs]

    async def generate_image(self, request):
        """Return a picture."""
        return upp.Image.from_bytes(b"x", "image/png")


@functools.cache
def provider():
    """The provider; a name can be given once in a process."""
    return upp.create_provider("displayed-samples", Vendor())


def of_agents(text):
    """Agents, their options and their strategies."""
    one = agent(model=scripted([text]), name="one", system=text)

    def choose(*_):
        return one

    yield from (one, AgentHooks(on_step_start=choose), Limits(requests=3, seconds=1.5))
    yield from (execution.ExecutionStrategy(), execution.AgentsStrategy((one,)))
    yield from (execution.loop(3), execution.react(reasoning_prompt=text))
    yield execution.plan(plan_schema={"type": "object", "description": text})
    yield from (execution.fallback(execution.react(reasoning_prompt=text), execution.loop()), execution.select(choose))
    yield from (execution.sequence(one), execution.parallel(one, merge=choose), execution.route(choose, [one]))
    yield from (middleware.logging(), middleware.rule("no", name=text))
    yield upp.Tool(text[:50], text, {"type": "object"}, print)
    yield durable.PendingCall(text, text, {text: text}, "approval")


def of_models(text):
    """Models, their settings and what they are asked for."""
    reference = upp.openai(text, api_key="k")
    yield from (
        reference,
        upp.ProviderConfig(base_url="https://127.0.0.1:9", headers={"x": text}),
        upp.llm(model=reference),
    )
    yield from (upp.embedding(model=reference), upp.image(model=reference))
    yield from (upp.ModelSettings(stop=[text]), upp.ToolUseStrategy(max_iterations=2, on_error=print))
    yield from (
        upp.ExponentialBackoff(),
        upp.LinearBackoff(),
        upp.NoRetry(),
        upp.TokenBucket(),
        upp.RetryAfterStrategy(),
    )
    yield from (upp.RoundRobinKeys([text]), upp.WeightedKeys([(text, 1)]), upp.DynamicKey(lambda: text))
    yield from (upp.EmbeddingRequest([text], {text: text}, text), upp.ImageRequest(text, {text: text}, None, None))
    yield from (upp.ModelResponse(text), upp.ImageCapabilities(True, True, True, 1), upp.TokenCount(3, exact=True))
    yield from (
        upp.HttpRequest("POST", f"https://127.0.0.1/{text}", body=b"x"),
        upp.HttpResponse(200, {"x": text}, text.encode()),
    )
    yield from (upp.AccessToken(text, 1.0), upp.EntraCredentials(text, text, text), upp.ManagedIdentity(text))
    yield upp.NativeTool("openai", "search", {"type": text})
    yield provider()
    yield from (upp.Reply(text), files.File(text, text, text, 1, text), calls.logging(), calls.memory_pubsub())
    yield upp.Batch.resume("openai:gpt-5#2#batch_abc", upp.openai("gpt-5", api_key="k"))
    yield from (calls.subscribe(text[:50]), calls.subscribe_sync(text[:50]))
    yield native.openai.web_search()


def of_testing(text):
    """What tests and evaluations have."""
    turn = agent(model=scripted(lambda request: text)).run_sync("x")
    case, verdict = testing.Case(text, text), testing.Verdict(False, text, text)
    result = testing.CaseResult(case, 1, turn, None, (verdict,), 0.1)
    yield from (testing.Reply(text), testing.ToolCall(text, {text: text}), testing.ErrorReply(500, text))
    yield from (
        testing.RawReply(text),
        testing.Fault(error_message=text, error_after=1),
        testing.expect(turn),
        case,
        verdict,
    )
    yield from (testing.Dataset([case]), result, testing.Report([result]))
    with testing.serve([text[:50]]) as server:
        yield server
        agent(model=upp.openai("m", base_url=server.base_url, api_key="k")).run_sync("x")
        yield server.requests[0]


def of_stores(text):
    """What stores return."""
    info = store.SessionInfo(text, text, "finished", 1, 1, NOW, 1)
    run = store.Run(text, text, "done", None, text, 1, text, NOW, NOW)
    imported = store.ImportedSession(text, text, "imported", 1, 1, {text: 1}, {}, text)
    yield from (store.memory(), info, run, store.SessionPage([info] * 200, None), store.RunPage([run], None), imported)
    yield from (
        store.ImportReport("jsonl", False, [imported]),
        store.PruneResult(1, 2, 3),
        store.StoreIssue(text, text),
    )


def of_protocols(text):
    """What is between turntree and other programs."""
    answer = thread_protocol.UiAnswer(text, True, text)
    yield from (answer, thread_protocol.UiInput(text, text, [answer], text, text, [{text: text}]))
    yield thread_protocol.UiStreamReader()
    yield from (mcp.stdio(text[:50], text), mcp.oauth("http://127.0.0.1:9"), mcp.Elicitation(text, {text: text}, text))
    yield uamp.PaymentRequest(
        agent=text, principal=text, claims={text: text}, session_id=text, response_id=text, payment_token=text
    )
    yield from (
        uamp.Event({"type": text, text: text}),
        uamp.dial("ws://127.0.0.1:9", agent(model=scripted([]), name="h")),
    )
    one = agent(model=scripted(["x"]), name="one")
    with uamp.serve_sync(one) as server, uamp.connect_sync(server.url) as client:
        talk = client.session()
        response = talk.run("x")
        yield from (client, talk, response)
        response.result()


def of_workflows(text):
    """Workflows and their sessions."""
    shop = uaip.Workflow("shop", text, {"name": text})
    stage = shop.stage("cart", initial=True)
    states = []

    @shop.task(stage="cart")
    def add(x: str, state: uaip.State) -> str:
        states.append(state)
        return x

    yield from (shop, stage, uaip.Approval(text, text, {text: text}), uaip.ToolInfo(name=text, description=text))
    yield from (uaip.JwtAuthenticator("http://127.0.0.1:9", issuer=text, audience=text), uaip.toolset(shop))
    with uaip.connect_sync(shop) as client:
        talk = client.open()
        talk.call("add", x="x")
        yield from (client, talk, states[0])


def of_harness(text, project):
    """Rules and claims of a project."""
    yield from (
        Action(kind="shell", command=text),
        Change(1, text, "allow", "deny", [text]),
        Conflict(text, text, [text]),
    )
    yield from (
        Forecast([Conflict(text, text, [text])], [text]),
        HookReply(0, text, text),
        Lease(text, text, text, 1, 1),
    )
    matched = MatchedRule(text, text, "deny", text, text)
    yield from (Decision("deny", [matched], text, 1, text), matched, Replay(1, 0, [], [text]))
    yield from (Worktree(text, text, pathlib.Path(text)), Overlaps([{text: text}], order=[text]), project)
    gate = Gate.load(project)
    yield from (gate, guard(gate, action=lambda tool, arguments: None), Worktrees(project))
    with Coordination(project) as coordination:
        yield from (coordination, coordination.claim("file:a"), coordination.model_slot("m"))


class Watch:
    """A middleware of agents that collects what it receives."""

    name = "watch"

    def __init__(self, found):
        self.found = found

    async def before(self, context):
        """Collect the context."""
        self.found.append(context)


class WatchCalls:
    """A middleware of models that collects what it receives."""

    name = "watch"

    def __init__(self, found):
        self.found = found

    async def on_end(self, context):
        """Collect the context of a call."""
        self.found += [context, context.request, context.response, context.state]


class Both(execution.ExecutionStrategy):
    """A strategy that collects what it receives."""

    name = "both"

    def __init__(self, found):
        self.found = found

    async def execute(self, context):
        """Collect the context, then run a loop."""
        self.found += [context, context.signal, context.state, context.llm]
        return await context.run(execution.loop())


async def of_runs(text, folder):
    """What functions of an application receive in runs, and what runs return."""
    found = []

    def say(context: ToolContext) -> str:
        found.append(context)
        return text

    def system(context: RunContext) -> str:
        found.append(context)
        return text

    def reply(request):
        found.append(request)
        return text if len(request.messages) > 1 else upp.ToolCall("c", "say", {})

    hooks = AgentHooks(on_step_end=lambda number, result: found.append(result))
    watch = Watch(found)
    one = agent(
        model=scripted(reply), tools=[say], system=system, middleware=[watch], strategy=hooks, execution=Both(found)
    )
    found.append(one.stream("x"))
    await found[-1]
    talk = session(one)
    found += [await query(one, "x"), talk, notebook.live(one, "x"), thread_protocol.ui_response(one.stream("x"))]
    with notebook.inspect(talk) as inspector:
        found.append(inspector)
    found.append(notebook.conversation([upp.UserMessage(text)]))
    llm = upp.llm(model=scripted(lambda request: text), middleware=[WatchCalls(found)])
    await llm.generate("x")
    found += [llm.stream("x"), llm.stream_sync("x")]
    with upp.replay(folder / "tape.json", "record") as tape:
        found.append(tape)
    vectors, pictures = upp.embedding(model=provider()("m")), upp.image(model=provider()("m"))
    found += [vectors.embed(["x"], chunked=True), vectors.embed_sync(["x"], chunked=True)]
    return [*found, pictures.stream("x"), pictures.stream_sync("x"), *await of_clients(text, one)]


async def of_clients(text, one):
    """Clients on an event loop."""
    shop = uaip.Workflow("shop", text)
    shop.stage("cart", initial=True)
    async with uaip.connect(shop) as client:
        found = [client, await client.open()]
    async with uamp.serve(agent(model=scripted(["x"]), name="one")) as server, uamp.connect(server.url) as client:
        talk = await client.session()
        found += [client, talk, talk.run("x")]
        await found[-1]
    return found


def of_data(text):
    """Data that its JSON Schema alone does not describe."""
    talk = session(agent(model=scripted(lambda request: text)))
    turn = talk.run_sync(text)
    yield from (turn, talk.tree, talk.checkpoints[0], thread_protocol.from_upp(talk))
    system = {"action_id": "a", "timestamp": "2026-01-01T00:00:00.000Z", "sequence": 1, "data": {text: text}}
    yield thread_protocol.SystemAction.model_validate({"action_type": f"system.{text[:50]}", **system})
    yield from (upp.Audio(text.encode(), text, 1.5), upp.Video(text.encode(), text), upp.Binary(text.encode(), text))
    yield from samples()


def from_schema(data_class, text):
    """An object of a data class with this text. Raises ValidationError if its schema says too little.

    Its first text is the whole text, and the others have the beginning.
    """
    schema = data_class.model_json_schema()
    texts = itertools.chain([text], itertools.repeat(text[:10_000]))
    return data_class.model_validate(_example(schema, schema.get("$defs", {}), texts, 0))


def _example(shape, definitions, texts, depth):
    if "$ref" in shape:
        shape = definitions[shape["$ref"].rpartition("/")[2]]
    shapes = shape.get("anyOf") or shape.get("oneOf")
    if shapes and "properties" not in shape:
        return _example(next(one for one in shapes if one.get("type") != "null"), definitions, texts, depth)
    if "const" in shape or "enum" in shape:
        return shape.get("const", shape.get("enum", [None])[0])
    kind = shape.get("type")
    if kind == "object":
        members = shape.get("properties", {})
        names = members if depth < 3 else shape.get("required", ())
        found = {name: _example(members.get(name, {}), definitions, texts, depth + 1) for name in names}
        return found or {"any": {"key": next(texts)}}
    if kind == "array":
        return [_example(shape.get("items", {}), definitions, texts, depth + 1)]
    if kind in ("integer", "number", "boolean"):
        return True if kind == "boolean" else 1
    return {"date-time": "2026-01-01T00:00:00.000Z"}.get(shape.get("format")) or next(texts)
