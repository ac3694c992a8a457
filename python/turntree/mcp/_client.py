"""MCP servers as toolsets."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypedDict, TypeVar, cast

from turntree._argument_errors import unknown_argument
from turntree._core import McpClientCore, ModelReference, ToolContext, __version__, _approvers
from turntree._peer_arguments import MCP
from turntree._recipes import Recipe, has_secret_header, is_secret_url, recipe, shown_url
from turntree._typing import Self, Unpack
from turntree.mcp import _elicitation
from turntree.mcp._elicitation import Elicitation, OnElicitation, RunCall
from turntree.mcp._errors import McpError
from turntree.mcp._results import MEDIA, Medium, text_of, value_of
from turntree.mcp._sampling import sample
from turntree.mcp._server_options import (
    check_answers,
    check_auth,
    check_text,
    check_texts,
    media_of,
    names_of,
    roots_of,
    timeout_of,
)
from turntree.upp._signature import ArgumentError
from turntree.upp._tools import Tool

OnSampling = ModelReference | Callable[[dict[str, Any]], Any]
Connect = Callable[[dict[str, Any], Callable[[str, Any, int | None], Any]], Awaitable[Any]]

# What a program needs to start. Keys of the application are not among them.
_POSIX = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_WINDOWS = (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
)  # fmt: skip

_METHOD_NOT_FOUND = -32601

# Seconds in which a server may still ask for a call that was cancelled.
_ASKS_LATER = 10

_LIST_CHANGED = "notifications/tools/list_changed"

# What the names of tools may be at every vendor.
_LONGEST_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_NAME}}}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")

_F = TypeVar("_F", bound=Callable[..., Any])


class ServerOptions(TypedDict, total=False):
    """The options of `stdio`, `http` and `sse`."""

    prefix: str | None
    allow: Sequence[str] | None
    deny: Sequence[str] | None
    timeout: float | None
    on_elicitation: OnElicitation | None
    on_sampling: OnSampling | None
    roots: Sequence[str | os.PathLike[str]]
    media: Sequence[Medium]


_DEFAULTS: ServerOptions = {
    "prefix": None,
    "allow": None,
    "deny": None,
    "timeout": 60,
    "on_elicitation": None,
    "on_sampling": None,
    "roots": (),
    "media": MEDIA,
}


def _with_options(function: _F) -> _F:
    """Show the options of `ServerOptions` as parameters of the function, for `help` and completion."""
    own = inspect.signature(function)
    # `TypedDict` wraps the texts of the annotations.
    hints = {name: getattr(hint, "__forward_arg__", hint) for name, hint in ServerOptions.__annotations__.items()}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in _DEFAULTS.items()
    ]
    parameters = [parameter for parameter in own.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
    cast("Any", function).__signature__ = own.replace(parameters=[*parameters, *options])
    return function


class McpServer:
    """A connection to an MCP server: a toolset for ``agent(tools=[…])``. Created by `stdio`, `http` and `sse`.

    ``async with`` connects and disconnects. Without it, the first use connects, and `aclose` disconnects.

    Attributes:
        name: The name of the toolset in errors.
    """

    def __init__(self, name: str, connect: Connect, given: ServerOptions) -> None:
        options: dict[str, Any] = {**_DEFAULTS, **given}
        self.name: str = name
        self._connect = connect
        check_answers(options["on_elicitation"], options["on_sampling"])
        self._prefix = check_text("prefix", options["prefix"] or "")
        self._allow = names_of("allow", options["allow"])
        self._deny = names_of("deny", options["deny"]) or set()
        self._timeout = timeout_of(options["timeout"])
        self._on_elicitation: OnElicitation | None = options["on_elicitation"]
        self._on_sampling: OnSampling | None = options["on_sampling"]
        self._roots = roots_of(options["roots"])
        self._media = media_of(options["media"])
        self._core: Any = None
        self._connecting: asyncio.Future[Any] | None = None
        self._listed: list[Tool[..., Any]] | None = None
        # The open requests for which the server may ask something, by their keys: None for those that no run makes.
        self._calls: dict[int, RunCall | None] = {}
        self._keys = itertools.count()
        # Counts the notices that the tools have changed.
        self._changes = 0
        self._recipe: Recipe | None = None

    def _made_by(self, made_by: Recipe | None) -> McpServer:
        self._recipe = made_by
        return self

    def __reduce__(self) -> Recipe:
        """Pickle the server by the arguments of its function, not connected.

        Raises:
            TypeError: The arguments hold a secret.
        """
        if self._recipe is None:
            message = (
                f"the server {self.name!r} cannot be pickled: its arguments hold a secret (env=, auth=, headers= or "
                "the user in the URL). Give auth= a function, or create the server in the process that uses it"
            )
            raise TypeError(message)
        return self._recipe

    async def __aenter__(self) -> Self:
        """Connect."""
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnect. A program gets the end of its input, and is killed if it does not end within seconds."""
        core, self._core, self._listed = self._core, None, None
        if core is not None:
            await core.close()

    @property
    def info(self) -> dict[str, Any]:
        """What the server said of itself: ``serverInfo``, ``capabilities``, ``instructions``. Empty before that."""
        return {} if self._core is None else self._core.server

    async def tools(self, context: Any = None, /) -> list[Tool[..., Any]]:
        """Return the tools of the server. They are listed once, and again after the server says that they have changed.

        Args:
            context: The run that asks; not used.

        Raises:
            McpError: The server cannot be reached, or refuses.
        """
        core = await self._connected()
        while self._listed is None:
            changes = self._changes
            found = await self._list(core, "tools/list", "tools")
            if changes == self._changes:
                wanted = [tool for tool in found if self._is_wanted(tool["name"])]
                names = names_for_models([self._prefix + tool["name"] for tool in wanted])
                self._listed = [self._tool(*pair) for pair in zip(wanted, names, strict=True)]
        return list(self._listed)

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the whole result: ``content``, ``structuredContent``, ``isError``.

        Raises:
            McpError: The call failed.
        """
        return await self._call(name, arguments, None)

    async def resources(self) -> list[dict[str, Any]]:
        """Return the resources of the server: dicts with ``uri``, ``name`` and more. Empty if it has none."""
        return await self._listed_if("resources", "resources/list", "resources")

    async def resource_templates(self) -> list[dict[str, Any]]:
        """Return the templates of resources: dicts with ``uriTemplate`` and ``name``. Empty if it has none."""
        return await self._listed_if("resources", "resources/templates/list", "resourceTemplates")

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """Read a resource: dicts with ``uri`` and either ``text`` or ``blob``, which is base64.

        Raises:
            McpError: There is no such resource, or the request failed.
        """
        result = await self._request(await self._connected(), "resources/read", {"uri": uri})
        return cast("list[dict[str, Any]]", result["contents"])

    async def prompts(self) -> list[dict[str, Any]]:
        """Return the prompts of the server: dicts with ``name`` and ``arguments``. Empty if it has none."""
        return await self._listed_if("prompts", "prompts/list", "prompts")

    async def get_prompt(self, name: str, /, **arguments: str) -> list[dict[str, Any]]:
        """Return the messages of a prompt: dicts with ``role`` and ``content``.

        Raises:
            McpError: There is no such prompt, or the request failed.
        """
        params = {"name": name, "arguments": arguments}
        result = await self._request(await self._connected(), "prompts/get", params)
        return cast("list[dict[str, Any]]", result["messages"])

    async def _connected(self) -> Any:
        if self._core is not None and not self._core.closed:
            return self._core
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._open())
            self._connecting.add_done_callback(self._forget_connecting)
        # One run that is cancelled must not end the connection of another one.
        return await asyncio.shield(self._connecting)

    def _forget_connecting(self, connecting: asyncio.Future[Any]) -> None:
        self._connecting = None
        if not connecting.cancelled():
            connecting.exception()

    async def _open(self) -> Any:
        settings = {
            "version": __version__,
            "timeout": self._timeout,
            "sampling": self._on_sampling is not None,
            "elicitation": self._on_elicitation is not None,
            "roots": bool(self._roots),
        }
        self._listed = None
        self._core = await self._connect(settings, self._answer)
        return self._core

    async def _list(self, core: Any, method: str, key: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = await self._request(core, method, {} if cursor is None else {"cursor": cursor})
            found.extend(page[key])
            following = page.get("nextCursor")
            # A server that repeats its cursor would be asked for ever.
            if not following or following == cursor:
                return found
            cursor = following

    async def _listed_if(self, capability: str, method: str, key: str) -> list[dict[str, Any]]:
        core = await self._connected()
        if capability not in core.server.get("capabilities", {}):
            return []
        return await self._list(core, method, key)

    def _is_wanted(self, name: str) -> bool:
        return (self._allow is None or name in self._allow) and name not in self._deny

    def _tool(self, definition: dict[str, Any], shown: str) -> Tool[..., Any]:
        name: str = definition["name"]
        hints: dict[str, Any] = definition.get("annotations") or {}

        # The context is passed by name, so this name is none that a server would choose for an argument.
        async def run(turntree_context: ToolContext, **values: Any) -> Any:
            result = await self._call(name, values, RunCall(shown, values, turntree_context, _approvers()))
            if result.get("isError"):
                # The model reads what the server says; that is no failure of the program.
                raise ArgumentError(text_of(result))
            return value_of(result, self._media)

        schema: dict[str, Any] = definition.get("inputSchema") or {"type": "object", "properties": {}}
        description = definition.get("description") or definition.get("title") or ""
        idempotent = bool(hints.get("readOnlyHint") or hints.get("idempotentHint"))
        return Tool(shown, description, schema, run, idempotent=idempotent)

    async def _call(self, name: str, arguments: dict[str, Any], call: RunCall | None) -> dict[str, Any]:
        def report(progress: dict[str, Any]) -> None:
            if call is not None:
                known = {key: progress[key] for key in ("progress", "total", "message") if key in progress}
                call.context.report(known)

        core = await self._connected()
        return await self._request(core, "tools/call", {"name": name, "arguments": arguments}, report, call)

    async def _request(
        self, core: Any, method: str, params: dict[str, Any], report: Any = None, call: RunCall | None = None
    ) -> dict[str, Any]:
        """Send a request. The server may ask the user something for it, unless it lists something."""
        key = next(self._keys)
        if not method.endswith("/list"):
            self._calls[key] = call
        try:
            result: dict[str, Any] = await core.call(method, params, report, key)
        except BaseException as error:
            # The server may ask before it learns that nobody waits: such a question must not go to another run.
            has_answered = isinstance(error, McpError) and error.kind == "refused"
            if key in self._calls and not has_answered:
                self._calls[key] = None
                asyncio.get_running_loop().call_later(_ASKS_LATER, self._calls.pop, key, None)
            else:
                self._calls.pop(key, None)
            raise
        self._calls.pop(key, None)
        return result

    async def _answer(self, method: str, params: Any, key: int | None) -> tuple[Any, tuple[int, str] | None]:
        """Answer a request or take a notification. The native core calls it.

        `key` is that of the call on whose stream a request arrives, or None if the transport does not tell.
        """
        if method == _LIST_CHANGED:
            self._changes += 1
            self._listed = None
        elif method == "roots/list":
            return {"roots": self._roots}, None
        elif method == "elicitation/create" and self._on_elicitation is not None:
            return await _elicitation.answer(self.name, self._on_elicitation, params, self._calls, key)
        elif method == "sampling/createMessage" and self._on_sampling is not None:
            return await sample(self._on_sampling, params), None
        elif not method.startswith("notifications/"):
            return None, (_METHOD_NOT_FOUND, f"this client does not answer {method}")
        return None, None

    def __repr__(self) -> str:
        state = "connected" if self._core is not None and not self._core.closed else "not connected"
        return f"<McpServer {self.name!r}, {state}>"


def names_for_models(names: Sequence[str]) -> list[str]:
    """Names that every vendor takes: letters, digits, ``_`` and ``-``, at most 64. They differ from each other.

    Names that need no change keep it, whatever their order.
    """
    taken = {name for name in names if _NAME.fullmatch(name)}
    shown: list[str] = []
    for name in names:
        if name in taken:
            shown.append(name)
            continue
        plain = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "_"
        unique, number = plain, 1
        while unique in taken:
            number += 1
            end = f"_{number}"
            unique = plain[: _LONGEST_NAME - len(end)] + end
        taken.add(unique)
        shown.append(unique)
    return shown


def _check_options(function: str, given: Mapping[str, object]) -> None:
    unknown = {option: value for option, value in given.items() if option not in _DEFAULTS}
    if unknown:
        raise unknown_argument(function, unknown, MCP, _DEFAULTS)


@_with_options
def stdio(
    command: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Unpack[ServerOptions],
) -> McpServer:
    """Return a toolset of the MCP server that a program is: it is started, and messages go over its standard streams.

    Args:
        command: The program.
        *args: Its arguments.
        env: Variables for the program, in addition to those that programs need to start, such as ``PATH`` and
            ``HOME``. Other variables of this process, such as API keys, are not passed.
        cwd: Its working directory.
        **options: The following options, which `http` and `sse` have too.
        prefix: Text before the names of the tools, to keep the tools of several servers apart. Models see names of
            letters, digits, ``_`` and ``-``; other characters of a server's names become ``_``.
        allow: The only tools to use, by the server's names. Default: all.
        deny: Tools to leave out.
        timeout: Seconds to connect, and for each request; a report of progress starts the time of a call anew. None:
            no limit.
        on_elicitation: Answers questions of the server to the user: a function, sync or async, of an `Elicitation`. It
            returns a dict with the answer, True to agree, False to decline, or None to cancel. ``"approval"``: the
            ``on_approval`` of the run whose call asks, which takes the `Elicitation`. Where the connection does not
            tell, that is the only call that is open; if calls of several runs are open, the question is refused.
            Default: the server learns that there is nobody to ask.
        on_sampling: A model that answers the server's requests for messages; or a function, sync or async, of the
            parameters of ``sampling/createMessage`` that returns text or the members of its result. Default: the server
            learns that there is no model.
        roots: Folders, or URIs, that the server may work on.
        media: The kinds of media in results that the model gets: ``"image"``, ``"document"`` (PDF), ``"audio"`` and
            ``"video"``. Its text names those of other kinds. Default: all.
    """
    _check_options("mcp.stdio", options)
    if args and isinstance(cast("object", args[0]), (list, tuple)):
        message = f"mcp.stdio(): args[0] is a {type(args[0]).__name__}; write mcp.stdio(command, *args)"
        raise TypeError(message)
    variables = {name: os.environ[name] for name in _WINDOWS if name in os.environ} if sys.platform == "win32" else {
        name: os.environ[name] for name in _POSIX if name in os.environ
    }  # fmt: skip
    variables.update(check_texts("env", env))
    program = [check_text("command", command), *(check_text(f"args[{place}]", arg) for place, arg in enumerate(args))]
    folder = None if cwd is None else os.fspath(cwd)

    def connect(settings: dict[str, Any], answer: Any) -> Any:
        return McpClientCore.stdio(program, variables, folder, settings, answer)

    server = McpServer(f"mcp {command}", connect, options)
    made_by = None if env else recipe(stdio, *program, cwd=folder, **options)
    return server._made_by(made_by)


@_with_options
def http(
    url: str,
    headers: Mapping[str, str] | None = None,
    auth: str | Callable[[], Any] | None = None,
    **options: Unpack[ServerOptions],
) -> McpServer:
    """Return a toolset of an MCP server at an address: Streamable HTTP.

    Args:
        url: The address, such as ``https://example.com/mcp``.
        headers: Headers for every request.
        auth: A bearer token; or a function, sync or async, that returns one and is called at each connection; or
            ``mcp.oauth(url)``.
        **options: As for `stdio`.
    """
    _check_options("mcp.http", options)
    server = McpServer(_name_of(url), _over_http(url, headers, auth, is_sse=False), options)
    return server._made_by(_recipe_over_http(http, url, headers, auth, options))


@_with_options
def sse(
    url: str,
    headers: Mapping[str, str] | None = None,
    auth: str | Callable[[], Any] | None = None,
    **options: Unpack[ServerOptions],
) -> McpServer:
    """Return a toolset of an older MCP server at an address: the HTTP transport with server-sent events of 2024.

    Args:
        url: The address of the event stream, such as ``https://example.com/sse``.
        headers: Headers for every request.
        auth: As for `http`.
        **options: As for `stdio`.
    """
    _check_options("mcp.sse", options)
    server = McpServer(_name_of(url), _over_http(url, headers, auth, is_sse=True), options)
    return server._made_by(_recipe_over_http(sse, url, headers, auth, options))


def _name_of(url: object) -> str:
    return f"mcp {shown_url(str(url))}"


def _recipe_over_http(
    function: Callable[..., McpServer], url: str, headers: Mapping[str, str] | None, auth: Any, options: ServerOptions
) -> Recipe | None:
    """Return what pickle needs; None if the arguments hold a secret."""
    is_secret = isinstance(auth, str) or is_secret_url(url) or has_secret_header(headers)
    return None if is_secret else recipe(function, url, dict(headers or {}), auth, **options)


def _over_http(url: str, headers: Mapping[str, str] | None, auth: Any, *, is_sse: bool) -> Connect:
    if not isinstance(cast("object", url), str) or not url.startswith(("http://", "https://")):
        message = f"url must be the address of a server, such as https://example.com/mcp, not {url!r}"
        raise ValueError(f"{message}; a program is mcp.stdio(command)")
    pairs = list(check_texts("headers", headers).items())
    check_auth(auth)

    async def connect(settings: dict[str, Any], answer: Any) -> Any:
        token: Any = auth() if callable(auth) else auth
        if inspect.isawaitable(token):
            token = await token
        return await cast("Awaitable[Any]", McpClientCore.http(url, pairs, token, is_sse, settings, answer))

    return connect


__all__ = ["Elicitation", "McpError", "McpServer", "http", "sse", "stdio"]
