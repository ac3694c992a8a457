"""Models: the factories of `turntree.upp` under the name that newcomers look for.

    from turntree.models import anthropic

    assistant = turntree.agent(model=anthropic("claude-sonnet-4-5"))

Every name is the one of `turntree.upp`, which has the whole provider layer: messages, streams, embeddings, images.
"""

from __future__ import annotations

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp import (
    ModelReference,
    ProviderConfig,
    anthropic,
    cerebras,
    deepseek,
    google,
    groq,
    llm,
    mistral,
    moonshot,
    ollama,
    openai,
    openai_compatible,
    openrouter,
    replay,
    scripted,
    xai,
)

__all__ = [
    "ModelReference",
    "ProviderConfig",
    "anthropic",
    "cerebras",
    "deepseek",
    "google",
    "groq",
    "llm",
    "mistral",
    "moonshot",
    "ollama",
    "openai",
    "openai_compatible",
    "openrouter",
    "replay",
    "scripted",
    "xai",
]

_set_public_module(__name__, globals())
