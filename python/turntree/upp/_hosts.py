"""Vendors and gateways with the Chat Completions API."""

from __future__ import annotations

from turntree._core import ModelReference
from turntree._public_names import publish
from turntree._typing import Unpack
from turntree.upp._providers import ProviderOptions, reference


def huggingface(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Hugging Face's router of inference providers. Environment variable of the key: HF_TOKEN.

    Args:
        model: Name of the model, such as ``openai/gpt-oss-120b:fireworks-ai``.
        **options: Connection settings.
    """
    return reference("huggingface", model, {}, options)


def cohere(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Cohere. Environment variables of the key: COHERE_API_KEY, else CO_API_KEY.

    Args:
        model: Name of the model, such as ``command-a-03-2025``.
        **options: Connection settings.
    """
    return reference("cohere", model, {}, options)


def together(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Together. Environment variable of the key: TOGETHER_API_KEY.

    Args:
        model: Name of the model, such as ``openai/gpt-oss-120b``.
        **options: Connection settings.
    """
    return reference("together", model, {}, options)


def fireworks(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Fireworks. Environment variable of the key: FIREWORKS_API_KEY.

    Args:
        model: Name of the model, such as ``accounts/fireworks/models/gpt-oss-120b``.
        **options: Connection settings.
    """
    return reference("fireworks", model, {}, options)


def nebius(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Nebius. Environment variable of the key: NEBIUS_API_KEY.

    Args:
        model: Name of the model, such as ``Qwen/Qwen3-235B-A22B``.
        **options: Connection settings.
    """
    return reference("nebius", model, {}, options)


def zai(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a GLM model of Z.ai. Environment variable of the key: ZAI_API_KEY.

    The schema of structured output is part of the system prompt, because the API enforces none.

    Args:
        model: Name of the model, such as ``glm-4.6``.
        **options: Connection settings.
    """
    return reference("zai", model, {}, options)


def perplexity(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Perplexity. Environment variables of the key: PERPLEXITY_API_KEY, else PPLX_API_KEY.

    The API has no tools. The sources of an answer are in the metadata of its message, as ``citations``.

    Args:
        model: Name of the model, such as ``sonar-pro``.
        **options: Connection settings.
    """
    return reference("perplexity", model, {}, options)


def github(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of GitHub Models. Environment variables of the token: GITHUB_TOKEN, else GITHUB_API_KEY.

    Args:
        model: Name of the model, such as ``openai/gpt-4.1``.
        **options: Connection settings.
    """
    return reference("github", model, {}, options)


def vercel(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Vercel's AI Gateway.

    Environment variables of the key: AI_GATEWAY_API_KEY, else VERCEL_OIDC_TOKEN.

    Args:
        model: Name of the model, such as ``anthropic/claude-sonnet-4.5``.
        **options: Connection settings.
    """
    return reference("vercel", model, {}, options)


def litellm(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of a LiteLLM proxy, by default at http://localhost:4000.

    Environment variable of the key: LITELLM_API_KEY, optional.

    Args:
        model: Name of the model at the proxy.
        **options: Connection settings.
    """
    return reference("litellm", model, {}, options)


publish(__name__, globals())
