"""Models: the factories of `turntree.upp` under the name that newcomers look for.

    from turntree.models import anthropic

    assistant = turntree.agent(model=anthropic("claude-sonnet-4-5"))

Every name is the one of `turntree.upp`, which has the whole provider layer: messages, streams, embeddings, images.
"""

from __future__ import annotations

from turntree import _public_names as _names
from turntree.upp import (
    ModelReference,
    ModelSettings,
    ProviderConfig,
    anthropic,
    azure,
    bedrock,
    cerebras,
    cohere,
    deepseek,
    fallback,
    fireworks,
    github,
    google,
    groq,
    huggingface,
    litellm,
    llm,
    mistral,
    moonshot,
    nebius,
    ollama,
    openai,
    openai_compatible,
    openrouter,
    perplexity,
    replay,
    router,
    scripted,
    together,
    vercel,
    vertex,
    xai,
    zai,
)

__all__ = [
    "ModelReference",
    "ModelSettings",
    "ProviderConfig",
    "anthropic",
    "azure",
    "bedrock",
    "cerebras",
    "cohere",
    "deepseek",
    "fallback",
    "fireworks",
    "github",
    "google",
    "groq",
    "huggingface",
    "litellm",
    "llm",
    "mistral",
    "moonshot",
    "nebius",
    "ollama",
    "openai",
    "openai_compatible",
    "openrouter",
    "perplexity",
    "replay",
    "router",
    "scripted",
    "together",
    "vercel",
    "vertex",
    "xai",
    "zai",
]

_names.set_public_module(__name__, globals())
