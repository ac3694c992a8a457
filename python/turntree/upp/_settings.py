"""Settings that mean the same for every vendor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, cast

from turntree._argument_errors import SETTINGS, explain_arguments
from turntree._dataclass_fields import PARAMETERS, OptionalFields
from turntree._public_names import publish

# An effort, or a budget of tokens.
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
OnRefusal: TypeAlias = Literal["raise", "return"]

# Settings travel among the parameters of a request with this prefix; the core replaces them by the vendor's words.
_PREFIX = "turntree:"
_NAMES = (
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "reasoning",
    "parallel_tool_calls",
    "tool_choice",
    "service_tier",
    "cache",
    "timeout",
    "raw",
)
_MAX_TEMPERATURE = 2


class ModelSettings:
    """Settings of model calls that mean the same for every vendor.

    Each is sent in the words of the vendor: ``max_tokens`` as ``max_output_tokens``, ``maxOutputTokens`` and so on. A
    setting that the vendor does not have is left out, with a warning. Parameters of the vendor in ``params`` take
    precedence.

    Args:
        max_tokens: The most tokens of an answer.
        temperature: The temperature, from 0 to 2.
        top_p: The probability mass of the candidates, from 0 to 1.
        stop: A stop sequence, or a list of them.
        seed: The seed of the sampling.
        reasoning: An effort, such as ``"low"``, ``"medium"`` or ``"high"``, or a budget of tokens. ``"none"`` and 0
            switch reasoning off.
        parallel_tool_calls: Whether the model may call several tools at once.
        tool_choice: ``"auto"``, ``"none"``, ``"required"`` or the name of a tool. Applies to every call of a run.
        service_tier: The service tier, in the vendor's words.
        cache: ``"auto"`` marks the prompt for the cache of vendors that do not cache by themselves, ``"1h"`` for an
            hour. ``"off"`` sets no marks.
        timeout: The maximum time until the response headers, in seconds.
        raw: Whether ``turn.raw`` has the vendor's responses as they arrived. They are stored with the messages, which
            then take about three times the memory.

    Raises:
        TypeError: A setting has the wrong type.
        ValueError: A setting is out of range.
    """

    __slots__ = _NAMES
    __dataclass_fields__: ClassVar[Any] = OptionalFields()
    __dataclass_params__: ClassVar[Any] = PARAMETERS

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | list[str] | None
    seed: int | None
    reasoning: Effort | str | int | None
    parallel_tool_calls: bool | None
    tool_choice: str | None
    service_tier: str | None
    cache: str | None
    timeout: float | None
    raw: bool | None

    @explain_arguments(SETTINGS)
    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        reasoning: Effort | str | int | None = None,
        parallel_tool_calls: bool | None = None,
        tool_choice: str | None = None,
        service_tier: str | None = None,
        cache: Literal["auto", "5m", "1h", "off"] | None = None,
        timeout: float | None = None,
        raw: bool | None = None,
    ) -> None:
        for name, value, least, most in (
            ("max_tokens", max_tokens, 1, None),
            ("temperature", temperature, 0, _MAX_TEMPERATURE),
            ("top_p", top_p, 0, 1),
            ("seed", seed, None, None),
            ("timeout", timeout, 0, None),
        ):
            _check_number(name, value, is_real=name not in {"max_tokens", "seed"}, least=least, most=most)
        for name, text in (("tool_choice", tool_choice), ("service_tier", service_tier)):
            if text is not None and not isinstance(text, str):
                raise _wrong(name, "a str", text)
        for name, switch in (("parallel_tool_calls", parallel_tool_calls), ("raw", raw)):
            if switch is not None and not isinstance(switch, bool):
                raise _wrong(name, "a bool", switch)
        if cache not in {None, "auto", "5m", "1h", "off"}:
            message = f'ModelSettings(cache=…) must be "auto", "5m", "1h" or "off", not {cache!r}'
            raise ValueError(message)
        if not isinstance(reasoning, str):
            _check_number("reasoning", reasoning, is_real=False, least=0, most=None)
        given: dict[str, Any] = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "stop": _stop_of(stop),
            "seed": seed,
            "reasoning": reasoning,
            "parallel_tool_calls": parallel_tool_calls,
            "tool_choice": tool_choice,
            "service_tier": service_tier,
            "cache": cache,
            "timeout": timeout,
            "raw": raw,
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that are set, by name."""
        values = {name: getattr(self, name) for name in _NAMES}
        return {name: value for name, value in values.items() if value is not None}

    def __setattr__(self, name: str, value: Any) -> None:
        remedy = f"write dataclasses.replace(settings, {name}=…), or ModelSettings({name}=…)"
        message = f"ModelSettings cannot be changed; {remedy}"
        raise AttributeError(message)

    def __replace__(self, **changes: Any) -> ModelSettings:
        return ModelSettings(**{**self.to_dict(), **changes})

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, ModelSettings) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _settings_from, (self.to_dict(),)

    def __repr__(self) -> str:
        from turntree._reprs import literal

        return f"ModelSettings({', '.join(f'{name}={literal(value)}' for name, value in self.to_dict().items())})"


def _settings_from(settings: dict[str, Any]) -> ModelSettings:
    return ModelSettings(**settings)


def _check_number(name: str, value: Any, *, is_real: bool, least: float | None, most: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float) if is_real else int):
        raise _wrong(name, "a number" if is_real else "an int", value)
    if (least is not None and not value >= least) or (most is not None and not value <= most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        message = f"ModelSettings({name}=…) must be {bounds}, not {value}"
        raise ValueError(message)


def _stop_of(stop: Any) -> str | list[str] | None:
    if stop is None or isinstance(stop, str):
        return stop
    texts: list[Any] = list(cast("Sequence[Any]", stop)) if isinstance(stop, Sequence) else [stop]
    if all(isinstance(text, str) for text in texts):
        return texts
    raise _wrong("stop", "a str or a list of str", cast("object", stop))


def _wrong(name: str, expected: str, value: object) -> TypeError:
    return TypeError(f"ModelSettings({name}=…) must be {expected}, not {type(value).__name__}")


def params_with(params: Any, settings: Any, on_refusal: Any = None) -> Any:
    """Return the parameters together with the common settings.

    Raises:
        TypeError: `settings` is neither `ModelSettings` nor a dict of them.
        ValueError: `on_refusal` is another word.
    """
    if on_refusal not in {None, "raise", "return"}:
        message = f'on_refusal must be "raise" or "return", not {on_refusal!r}'
        raise ValueError(message)
    if isinstance(settings, Mapping):
        settings = ModelSettings(**cast("Mapping[str, Any]", settings))
    if settings is not None and not isinstance(settings, ModelSettings):
        remedy = "write settings=ModelSettings(max_tokens=…)"
        message = f"settings must be turntree.upp.ModelSettings, not {type(settings).__name__}; {remedy}"
        raise TypeError(message)
    given = {} if settings is None else settings.to_dict()
    if on_refusal is not None:
        given["on_refusal"] = on_refusal
    if not given or not (params is None or isinstance(params, Mapping)):
        return params
    own = {} if params is None else dict(cast("Mapping[str, Any]", params))
    return {**{f"{_PREFIX}{name}": value for name, value in given.items()}, **own}


publish(__name__, globals())
