"""Every provider of turntree, configured for a loopback server.

The tests run for the providers of this table; `test_index.py` compares it with `turntree.upp`.
"""

from dataclasses import dataclass, field
from typing import Any

from turntree.upp import (
    anthropic,
    azure,
    cerebras,
    cohere,
    deepseek,
    fireworks,
    github,
    google,
    groq,
    huggingface,
    litellm,
    mistral,
    moonshot,
    nebius,
    ollama,
    openai,
    openai_compatible,
    openrouter,
    responses,
    together,
    vercel,
    xai,
)

KEY = "sk-conformance-0123456789"


@dataclass(frozen=True)
class Provider:
    """One way to reach a model: a factory with its API, and what its vendor requires."""

    name: str
    factory: Any
    arguments: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    #: The variable that holds the key; None where a key is optional.
    variable: str | None = None
    #: False where the vendor sends usage at the end of each stream unasked, which the loopback server does not do.
    asks_for_usage: bool = True
    #: Whether the provider takes images.
    images: bool = True
    #: Whether the provider has embedding models.
    embeds: bool = False

    def model(self, server, **options):
        """A model reference to `server`."""
        if self.factory is responses:
            return responses("model-1", server.base_url, **{"api_key": KEY, **options})
        address = server.url if self.factory is ollama else server.base_url
        return self.factory("model-1", *self.arguments, **{"base_url": address, "api_key": KEY, **options})


MAX_TOKENS = {"max_tokens": 256}

PROVIDERS = {
    provider.name: provider
    for provider in [
        Provider("openai", openai, ("responses",), variable="OPENAI_API_KEY", embeds=True),
        Provider("openai-completions", openai, ("completions",), variable="OPENAI_API_KEY", embeds=True),
        Provider("anthropic", anthropic, params=MAX_TOKENS, variable="ANTHROPIC_API_KEY"),
        Provider("google", google, variable="GOOGLE_API_KEY", embeds=True),
        Provider("ollama", ollama, embeds=True),
        Provider("openrouter", openrouter, variable="OPENROUTER_API_KEY", embeds=True),
        Provider("openrouter-responses", openrouter, ("responses",), variable="OPENROUTER_API_KEY", embeds=True),
        Provider("xai", xai, variable="XAI_API_KEY"),
        Provider("xai-responses", xai, ("responses",), variable="XAI_API_KEY"),
        Provider("xai-messages", xai, ("messages",), params=MAX_TOKENS, variable="XAI_API_KEY"),
        Provider("groq", groq, variable="GROQ_API_KEY"),
        Provider("cerebras", cerebras, variable="CEREBRAS_API_KEY", images=False),
        Provider("moonshot", moonshot, variable="MOONSHOT_API_KEY"),
        Provider("mistral", mistral, variable="MISTRAL_API_KEY", asks_for_usage=False, embeds=True),
        Provider("deepseek", deepseek, variable="DEEPSEEK_API_KEY", images=False),
        Provider("responses", responses, variable="OPENRESPONSES_API_KEY"),
        Provider("openai-compatible", openai_compatible, embeds=True),
        Provider("azure", azure, variable="AZURE_OPENAI_API_KEY"),
        Provider("cohere", cohere, variable="COHERE_API_KEY"),
        Provider("fireworks", fireworks, variable="FIREWORKS_API_KEY"),
        Provider("github", github, variable="GITHUB_TOKEN"),
        Provider("huggingface", huggingface, variable="HF_TOKEN"),
        Provider("litellm", litellm),
        Provider("nebius", nebius, variable="NEBIUS_API_KEY"),
        Provider("together", together, variable="TOGETHER_API_KEY"),
        Provider("vercel", vercel, variable="AI_GATEWAY_API_KEY"),
    ]
}
