"""Models made of other models: `fallback` and `router`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from turntree._core import ModelReference, ModelRequest, fallback_model, router_model
from turntree._public_names import publish
from turntree._recipes import recipe
from turntree.exceptions import ErrorCode, UPPError


def fallback(
    *models: ModelReference | str,
    when: Iterable[ErrorCode | str]
    | ErrorCode
    | str
    | Callable[[UPPError], bool]
    | Callable[[UPPError], Awaitable[bool]]
    | None = None,
) -> ModelReference:
    """Return a model that calls these models in order until one answers.

    A stream goes to the next model only if it fails before its first event. Models that lack a capability which a
    request needs, such as image input, are passed over. If all models fail, the error of the last one is raised.
    ``turn.model`` is the model that answered, and the span of the call has its name and the models that failed.

    Each model keeps its own connection settings. Of the ``config`` of an agent, the key, the base URL, the API version
    and the headers do not apply.

    Args:
        *models: Models or their names, such as ``"openai:gpt-5"``; at least one.
        when: The errors after which the next model is called: error codes, or a function of the error. Default: rate
            limits, overload, timeouts, connection errors and statuses from 500. After CANCELLED no model is called.

    Raises:
        TypeError: A model is not a model or a name, or `when` has another type.
        ValueError: There are no models, a name is unknown, or `when` has an unknown code.
    """
    if not models:
        message = "fallback needs at least one model, such as fallback(openai(…), anthropic(…))"
        raise ValueError(message)
    references = [_model_of(model, f"models[{place}]") for place, model in enumerate(models)]
    if when is None:
        return fallback_model(references, None, None, recipe(fallback, *references))
    if isinstance(when, str):
        when = (when,)
    if callable(when):
        return fallback_model(references, None, when, recipe(fallback, *references, when=when))
    if not isinstance(cast("Any", when), Iterable):
        message = f"when must be error codes or a function of the error, not {type(when).__name__}"
        raise TypeError(message)
    codes = [_code(code) for code in when]
    return fallback_model(references, codes, None, recipe(fallback, *references, when=codes))


def router(
    choose: Callable[[ModelRequest], ModelReference | str] | Callable[[ModelRequest], Awaitable[ModelReference | str]],
) -> ModelReference:
    """Return a model whose requests go to the model that a function chooses.

    ``turn.model`` is the model that answered. Each model keeps its own connection settings, as with `fallback`. The
    chosen model may be a `fallback`.

    Args:
        choose: Function, sync or async, from a `ModelRequest` to a model or its name, such as ``"openai:gpt-5"``.
            Called before each model call; its exceptions are raised unchanged.

    Raises:
        TypeError: `choose` is not a function.
    """
    if not callable(choose):
        message = f"choose must be a function from a request to a model, not {type(choose).__name__}"
        raise TypeError(message)
    function = cast("Callable[[ModelRequest], Any]", choose)
    import inspect  # `import turntree` does not load it

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004

        async def chosen(request: ModelRequest) -> ModelReference:
            return _model_of(await function(request), "the result of choose")

        return router_model(chosen, recipe(router, choose))

    def chosen_at_once(request: ModelRequest) -> Any:
        result = function(request)
        if isinstance(result, Awaitable):
            return _awaited(cast("Awaitable[Any]", result))
        return _model_of(result, "the result of choose")

    return router_model(chosen_at_once, recipe(router, choose))


async def _awaited(result: Awaitable[Any]) -> ModelReference:
    return _model_of(await result, "the result of choose")


def _code(code: object) -> str:
    if isinstance(code, ErrorCode):
        return code.value
    if isinstance(code, str):
        return code
    message = f"when must have error codes such as ErrorCode.RATE_LIMITED, not {type(code).__name__}"
    raise TypeError(message)


def _model_of(model: object, place: str) -> ModelReference:
    if isinstance(model, ModelReference):
        return model
    if isinstance(model, str):
        from turntree.upp._registry import model as named

        return named(model)
    message = f'{place} must be a model such as openai("…") or its name, not {type(model).__name__}'
    raise TypeError(message)


publish(__name__, globals())
