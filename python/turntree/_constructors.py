"""What constructors of public classes answer to missing and unknown arguments: which ones, and what to write.

The native constructors answer by themselves, except of classes that only the core creates.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FunctionType
    from typing import Any
else:
    FunctionType = type(lambda: None)

# What to write to get an object of a class that applications do not create themselves.
_CREATED_BY: dict[str, dict[str, str]] = {
    "turntree": {
        "AgentStream": "agent.stream(input) returns one",
        "QueryResult": "await turntree.query(agent, input) returns one",
        "Session": "write turntree.session(agent), or await Session.open(store, id, agent)",
        "StepResult": "the hook on_step_end receives it",
        "Toolset": "write a class with `async def tools(self, context)`, which returns a list of tools",
    },
    "turntree.durable": {"PendingCall": "the pending calls of a run are objects of it"},
    "turntree.execution": {
        "AbortSignal": "the context of a strategy has one as context.signal",
        "AgentsStrategy": "write execution.sequence(…), execution.parallel(…) or execution.route(…)",
        "CustomStrategy": "write a class with `name` and `async def execute(self, context)`, which returns a Turn",
        "ExecutionContext": "execute(context) of a strategy receives it",
        "FallbackStrategy": "write execution.fallback(…)",
        "LoopStrategy": "write execution.loop(max_iterations=10)",
        "ParallelStrategy": "write execution.parallel(agent, other_agent, merge=…)",
        "PlanStrategy": "write execution.plan()",
        "ReactStrategy": "write execution.react()",
        "RouteStrategy": "write execution.route(choose, agents)",
        "SelectStrategy": "write execution.select(choose)",
        "SequenceStrategy": "write execution.sequence(agent, other_agent)",
        "StrategyState": "the context of a strategy has it as context.state",
    },
    "turntree.harness": {
        "Change": "Gate.replay(…) returns them",
        "Conflict": "Worktrees.forecast() returns them",
        "Decision": "gate.check(action) returns one",
        "Forecast": "Worktrees.forecast() returns one",
        "Gate": "write Gate.load(project)",
        "Guard": "write harness.guard(…)",
        "HookReply": "hooks.handle(event) returns one",
        "Lease": "`with coordination.claim(resource) as lease` gives one",
        "MatchedRule": "the rules of a Decision are objects of it",
        "Project": "write Project.find()",
        "Replay": "Gate.replay(…) returns one",
        "Worktree": "Worktrees(project) has methods that return them",
    },
    "turntree.mcp": {
        "Elicitation": "the function for on_elicitation= receives it",
        "McpServer": "write mcp.stdio(command), mcp.http(url) or mcp.sse(url)",
        "OAuth": "write mcp.oauth(…)",
        "TokenStore": "write a class with the methods `save(key, data)` and `load(key)`",
    },
    "turntree.middleware": {
        "GuardrailRule": "write middleware.rule(…)",
        "Middleware": "write a class with `name` and any of before, after, on_error and on_event",
    },
    "turntree.notebook": {
        "Inspector": "write notebook.inspect(session)",
        "Live": "write notebook.live(agent, input)",
        "View": "functions of turntree.notebook return them",
    },
    "turntree.store": {
        "ImportReport": "await store.import_from(…) returns one",
        "ImportedSession": "the sessions of an ImportReport are objects of it",
        "PersistenceAdapter": "write a class with the methods `save(key, data)`, `load(key)` and `delete(key)`",
        "PruneResult": "await store.prune(…) returns one",
        "Run": "await store.run(id) returns one",
        "RunPage": "await store.runs() returns one",
        "SessionInfo": "the page of await store.sessions() has them",
        "SessionPage": "await store.sessions() returns one",
        "Store": "write store.memory(), store.sqlite(path), store.postgres(url) or another function of turntree.store",
        "StoreIssue": "await store.check() returns them",
    },
    "turntree.testing": {
        "CaseResult": "the results of a Report are objects of it",
        "Expectation": "write expect(turn)",
        "LoopbackServer": "write `with serve(script) as server`",
        "Report": "await evaluate(agent, dataset) returns one",
        "Request": "server.requests has them",
    },
    "turntree.thread_protocol": {
        "UiAnswer": "the answers of ui_input(body) are objects of it",
        "UiInput": "write ui_input(body)",
        "UiResponse": "write ui_response(stream)",
    },
    "turntree.uaip": {
        "Approval": "workflow.approvals() returns them",
        "Client": "write `async with uaip.connect(url) as client`",
        "Session": "write await client.open(workflow)",
        "Stage": "write workflow.stage(name)",
        "SyncClient": "write `with uaip.connect_sync(url) as client`",
        "SyncSession": "write client.open(workflow)",
        "WorkflowToolset": "write uaip.toolset(url)",
    },
    "turntree.uamp": {
        "Client": "write `async with uamp.connect(url) as client`",
        "Daemon": "write `async with uamp.dial(url, agent)`",
        "PaymentGate": "write a class with the methods required(request) and submit(payment, request)",
        "PaymentRequest": "the methods of a payment gate receive it",
        "Response": "write session.run(text)",
        "Session": "write await client.session()",
        "SyncClient": "write `with uamp.connect_sync(url) as client`",
        "SyncResponse": "write session.run(text)",
        "SyncSession": "write client.session()",
    },
    "turntree.upp": {
        "CustomRetry": "write a class with the method `on_retry`",
        "EmbeddingModel": "write upp.embedding(model=…)",
        "EmbeddingRequest": "the function for embed= of a provider receives it",
        "EmbeddingStream": "upp.embedding(model=…).embed(inputs, chunked=True) returns one",
        "ImageEvent": "a streamed call of an image model gives them",
        "ImageModel": "write upp.image(model=…)",
        "ImageRequest": "the functions for generate_image= and edit= of a provider receive it",
        "ImageStream": "upp.image(model=…).stream(prompt) returns one",
        "LLM": "write upp.llm(model=…)",
        "Message": "write UserMessage(content), AssistantMessage(content) or ToolResultMessage(results)",
        "NativeTool": "write a function of turntree.upp.native, such as native.openai.web_search()",
        "Provider": "write upp.create_provider(…)",
        "StreamResult": "llm.stream(input) returns one",
        "SyncEmbeddingStream": "upp.embedding(model=…).embed_sync(inputs, chunked=True) returns one",
        "SyncImageStream": "upp.image(model=…).stream_sync(prompt) returns one",
        "SyncStreamResult": "llm.stream_sync(input) returns one",
    },
}

_EXPLAINED: set[Any] = set()


def explain_missing_arguments(module: str, values: Iterable[tuple[str, Any]]) -> None:
    """Let classes of a public module answer missing and unknown arguments with what to write instead.

    Args:
        module: The public module.
        values: Public names and their values; what is no class is ignored.
    """
    created_by = _CREATED_BY.get(module, {})
    for name, value in values:
        # Enumerations have members.
        if not isinstance(value, type) or value in _EXPLAINED or hasattr(value, "__members__"):
            continue
        if not value.__module__.startswith("turntree"):
            continue
        _EXPLAINED.add(value)
        _explain(value, created_by.get(name))


def _explain(owner: Any, created_by: str | None) -> None:
    """Wrap the constructor of a class, unless it answers by itself."""
    if owner.__dict__.get("_is_protocol"):
        owner.__init__ = _protocol_constructor(owner, created_by)
        return
    constructor = "__init__" if isinstance(owner.__init__, FunctionType) else "__new__"
    called = getattr(owner, constructor)
    # A base class may be explained too.
    called = written = getattr(called, "_explained", called)
    while hasattr(written, "__wrapped__"):
        written = written.__wrapped__
    if isinstance(written, FunctionType):
        # `OptionalFields` are those of a class with a constructor that explains its arguments.
        if _required(written) or type(owner.__dict__.get("__dataclass_fields__")) is dict:
            setattr(owner, constructor, _explained(owner, called, created_by))
    elif created_by is not None and "__new__" not in _attributes(owner):
        owner.__new__ = _refusing(created_by)


def _attributes(owner: type[Any]) -> set[str]:
    return {name for base in owner.__mro__[:-1] for name in vars(base)}


def _required(function: Any) -> bool:
    """Return whether the function has required parameters besides the object. Faster than `inspect.signature`."""
    code, defaults = function.__code__, function.__defaults__ or ()
    by_keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    optional: dict[str, Any] = function.__kwdefaults__ or {}
    return code.co_argcount - len(defaults) > 1 or any(name not in optional for name in by_keyword)


def _explained(owner: type[Any], called: Any, created_by: str | None) -> Any:
    """Return the constructor with an error that names missing and unknown arguments."""
    import functools  # `import turntree` does not load it

    @functools.wraps(called)
    def constructor(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return called(self, *args, **kwargs)
        except TypeError as error:
            # An error of the call itself has no frame of the constructor.
            is_of_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
            unfit = _refused(owner, called, args, kwargs, created_by) if is_of_call else None
            message = _message(owner, called, (self, *args), kwargs, created_by)
            if unfit is None and message is None:
                raise  # It was raised inside the constructor.
            raise (unfit or TypeError(message)) from None

    vars(constructor)["_explained"] = called
    return constructor


def _protocol_constructor(owner: type[Any], created_by: str | None) -> Any:
    """Return the constructor of a protocol. Classes that extend it call that of their next base."""

    def __init__(self: object, *args: object, **kwargs: object) -> None:
        if type(self) is owner:
            message = f"{owner.__name__} is a protocol, and has no objects of its own; {created_by}"
            raise TypeError(message)
        created: Any = self
        super(owner, created).__init__(*args, **kwargs)

    return __init__


def _refusing(created_by: str) -> Any:
    """Return the constructor of a class that only the core creates."""

    def constructor(cls: type, /, *args: object, **kwargs: object) -> object:
        message = f"{cls.__name__}() is not called by applications; {created_by}"
        raise TypeError(message)

    return constructor


def _refused(
    owner: type[Any], written: Any, args: tuple[Any, ...], kwargs: dict[str, Any], created_by: str | None
) -> TypeError | None:
    """Return the error of arguments that the constructor does not take; None if it takes all."""
    import inspect

    from turntree._argument_errors import refused_arguments

    parameters = list(inspect.signature(written).parameters.values())[1:]
    kinds = {parameter.kind for parameter in parameters}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    names = [(parameter.name, parameter.kind is parameter.KEYWORD_ONLY) for parameter in parameters]
    unknown = {name: value for name, value in kwargs.items() if name not in dict(names)}
    more = len(args) - sum(not by_keyword for _, by_keyword in names)
    if not unknown and more <= 0:
        return None
    if created_by is not None and "__dataclass_fields__" not in vars(owner):
        return TypeError(f"{owner.__name__}() is not called by applications; {created_by}")
    return refused_arguments(owner.__name__, names, more, unknown)


def _message(
    owner: type[Any], written: Any, args: tuple[Any, ...], kwargs: dict[str, Any], created_by: str | None
) -> str | None:
    """Return which arguments a call does not have, and what to write; None if it has all."""
    import inspect  # `import turntree` does not load it

    signature = inspect.signature(written)
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.kind not in variable][1:]
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    missing = [parameter.name for parameter in required if parameter.name not in given]
    if not missing:
        return None
    if created_by is not None:
        return f"{owner.__name__}() is not called by applications; {created_by}"
    needs = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    return f"{owner.__name__}() needs {needs}; write {owner.__name__}({', '.join(map(_argument, required))})"


def _argument(parameter: Any) -> str:
    return f"{parameter.name}=…" if parameter.kind is parameter.KEYWORD_ONLY else str(parameter.name)
