"""Errors for arguments that other libraries have and turntree names differently."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

CallableT = TypeVar("CallableT", bound=Callable[..., Any])

__all__ = ["AGENT", "RUN", "SESSION", "explain_arguments", "unknown_argument"]

_STRUCTURE = "pass the type of the answer as structure="
_PARAMS = 'model parameters are those of the vendor: pass params={{"{name}": …}}'

AGENT: dict[str, str] = {
    "instructions": "the instructions of an agent are system=",
    "system_prompt": "the instructions of an agent are system=",
    "prompt": "the instructions of an agent are system=, and the input goes to run()",
    "role": "the instructions of an agent are system=",
    "output_type": _STRUCTURE,
    "result_type": _STRUCTURE,
    "response_model": _STRUCTURE,
    "response_format": _STRUCTURE,
    "output_schema": _STRUCTURE,
    "llm": "the model is model=",
    "model_name": "the model is model=",
    "model_settings": 'model parameters are params=, a dict such as {{"max_tokens": 500}}',
    "temperature": _PARAMS,
    "max_tokens": _PARAMS,
    "top_p": _PARAMS,
    "functions": "the tools are tools=",
    "toolsets": "toolsets are among tools=",
    "agents": "other agents are among tools=",
    "sub_agents": "other agents are among tools=",
    "handoffs": "other agents are among tools=",
    "deps": "the dependencies belong to a run: run(input, deps=…); deps_type= is their type",
    "limits": "the limits belong to a run: run(input, limits=turntree.Limits(…))",
    "usage_limits": "the limits belong to a run: run(input, limits=turntree.Limits(…))",
    "retries": "the retries of output are output_retries=, those of a tool @tool(retries=…)",
    "output_validator": "the validators are output_validators=, a list of functions",
    "memory": "the conversation of a run is a session: turntree.session(agent)",
    "checkpointer": "the store belongs to a session: turntree.session(agent, persistence=…)",
    "api_key": 'the key belongs to the model: openai("…", api_key=…), or config=',
    "base_url": 'the URL belongs to the model: openai("…", base_url=…), or config=',
    "max_steps": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "max_iterations": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "max_turns": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "verbose": "add turntree.middleware.logging() to middleware=",
}

RUN: dict[str, str] = {
    "message_history": "the history comes first: run(history, input); a session keeps it by itself",
    "history": "the history comes first: run(history, input); a session keeps it by itself",
    "messages": "the history comes first: run(history, input); a session keeps it by itself",
    "input": "the input has no name: run(input)",
    "prompt": "the input has no name: run(input)",
    "user_prompt": "the input has no name: run(input)",
    "at": "another node of a session is the argument of its run: await session.run(input, at=node)",
    "session": "run the session instead: await session.run(input)",
    "thread_id": "run a session instead: turntree.session(agent, id=…)",
    "usage_limits": "the limits are limits=turntree.Limits(…)",
    "model_settings": 'model parameters are params=, a dict such as {{"max_tokens": 500}}',
    "context": "the object for the functions of the run is deps=",
    "dependencies": "the object for the functions of the run is deps=",
    "config": "the configuration belongs to the agent: turntree.agent(config=…)",
}

SESSION: dict[str, str] = {
    "store": "the store of a session is persistence=",
    "db": "the store of a session is persistence=",
    "checkpointer": "the store of a session is persistence=",
    "session_id": "the id of a session is id=",
    "thread_id": "the id of a session is id=",
    "model": "the model belongs to the agent: turntree.session(turntree.agent(model=…))",
}


# Flags of code objects, as in `inspect.CO_VARARGS` and `inspect.CO_VARKEYWORDS`.
_TAKES_POSITIONS = 0x04
_TAKES_KEYWORDS = 0x08


def explain_arguments(hints: Mapping[str, str]) -> Callable[[CallableT], CallableT]:
    """Decorate a function: an unknown keyword raises TypeError with what to write instead."""

    def decorate(function: CallableT) -> CallableT:
        # The code object tells all of it; `inspect` would be about a tenth of the time of `import turntree`.
        code = function.__code__
        places = code.co_argcount
        named = set(code.co_varnames[code.co_posonlyargcount : places + code.co_kwonlyargcount])
        known = sorted(named - {"self"})
        takes_any = bool(code.co_flags & _TAKES_KEYWORDS)
        takes_more = bool(code.co_flags & _TAKES_POSITIONS)

        @functools.wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            if options and not takes_any and not options.keys() <= named:
                unknown = next(name for name in options if name not in named)
                raise TypeError(_message(function.__qualname__, unknown, hints, known))
            if len(arguments) > places and not takes_more:
                first = known_first(known)
                message = f"{function.__qualname__}() takes its arguments by name, such as {first}="
                raise TypeError(message)
            return function(*arguments, **options)

        return checked  # type: ignore[return-value]  # The same signature, by `functools.wraps`.

    return decorate


def known_first(known: list[str]) -> str:
    """The argument that an example shows."""
    return "model" if "model" in known else known[0]


def unknown_argument(function: str, options: Mapping[str, Any], hints: Mapping[str, str]) -> TypeError:
    """The error of a method that takes no such keyword."""
    return TypeError(_message(function, next(iter(options)), hints, []))


def _message(function: str, name: str, hints: Mapping[str, str], known: list[str]) -> str:
    remedy = f"the arguments are {', '.join(known)}" if known else "it is not an argument of turntree"
    if name in hints:
        remedy = hints[name].format(name=name)
    return f"{function}() has no argument '{name}': {remedy}"
