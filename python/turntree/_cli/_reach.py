"""Which providers have a key, and which of them can be reached from here: for ``turntree doctor``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from turntree.exceptions import UPPError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turntree._core import ModelReference

KEYS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github": ("GITHUB_TOKEN", "GITHUB_API_KEY"),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "litellm": ("LITELLM_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY", "KIMI_API_KEY"),
    "nebius": ("NEBIUS_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "perplexity": ("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
    "together": ("TOGETHER_API_KEY",),
    "vercel": ("AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "xai": ("XAI_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}
"""The environment variables of the keys, by provider."""

# Seconds until a provider counts as not reachable.
_PATIENCE = 10.0
# Errors that come before a provider has said anything.
_UNREACHED = ("NETWORK_ERROR", "TIMEOUT")


class Reached(NamedTuple):
    """Whether a provider answered, and what was heard.

    Attributes:
        provider: The name or the URL.
        reachable: Whether it answered.
        answer: The answer or the error.
    """

    provider: str
    reachable: bool
    answer: str


def keys() -> dict[str, str]:
    """Return the name of the variable with the key of each provider that has one."""
    found = {name: next(filter(os.environ.get, variables), None) for name, variables in KEYS.items()}
    return {name: variable for name, variable in found.items() if variable is not None}


def reach(providers: Sequence[str]) -> list[Reached]:
    """Ask providers for an answer without a valid key: it costs nothing, and any answer shows that they are reached.

    Raises:
        ValueError: A provider is unknown.
    """
    import asyncio

    models = [_model(name) for name in providers]

    async def ask_all() -> list[Reached]:
        return list(await asyncio.gather(*map(_ask, providers, models)))

    return asyncio.run(ask_all())


def _model(name: str) -> ModelReference:
    from turntree.upp import model, openai_compatible

    settings: dict[str, Any] = {"api_key": "none", "timeout": _PATIENCE}
    if "://" in name:
        return openai_compatible("doctor", name, **settings)
    if name not in KEYS or name == "azure":
        known = ", ".join(sorted(KEYS.keys() - {"azure"}))
        message = f"--reach {name}: expected an address such as http://localhost:8000/v1, or one of {known}"
        raise ValueError(message)
    return model(f"{name}:doctor", **settings)


async def _ask(name: str, model: ModelReference) -> Reached:
    from turntree.upp import llm

    try:
        await llm(model=model, params={"max_tokens": 1}).generate("ping")
    except UPPError as error:
        code = error.code.value
        if code in _UNREACHED and error.status_code is None:
            return Reached(name, reachable=False, answer=error.message)
        status = f" ({error.status_code})" if error.status_code is not None else ""
        return Reached(name, reachable=True, answer=f"{code}{status}")
    return Reached(name, reachable=True, answer="an answer without a key")
