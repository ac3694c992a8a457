"""Models of clouds: `azure` and `vertex`, with the sign-in of the cloud."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from turntree._core import ModelReference
from turntree._typing import Unpack
from turntree.upp._cloud_tokens import ApplicationDefaultCredentials
from turntree.upp._providers import ProviderOptions, reference

Auth: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or a function that returns one for each request."""

_AZURE_VERSION = "2024-10-21"


def azure(
    deployment: str,
    endpoint: str | None = None,
    *,
    auth: Auth | None = None,
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """Return a model of Azure OpenAI: a deployment, by Chat Completions.

    Environment variables of the key: AZURE_OPENAI_API_KEY, else AZURE_API_KEY.

    Args:
        deployment: Name of the deployment.
        endpoint: URL of the resource, such as ``https://name.openai.azure.com``. Default: AZURE_OPENAI_ENDPOINT.
        auth: Sign-in with Entra instead of a key: a token, a function that returns one (as
            ``azure.identity.get_bearer_token_provider``), `EntraCredentials` or `ManagedIdentity`.
        **options: Connection settings. `api_version` is ``v1`` or a date, by default OPENAI_API_VERSION, else
            ``2024-10-21``. `api_key` is the key, and `base_url` replaces `endpoint` and `api_version`.

    Raises:
        ValueError: There is no endpoint.
    """
    settings: dict[str, Any] = {**options}
    base_url: Any = settings.get("base_url")
    if base_url is None:
        endpoint = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not endpoint:
            message = "azure needs the URL of the resource: set endpoint= or AZURE_OPENAI_ENDPOINT"
            raise ValueError(message)
        version: str = settings.get("api_version") or os.environ.get("OPENAI_API_VERSION") or _AZURE_VERSION
        root = endpoint.rstrip("/").removesuffix("/openai")
        base_url = f"{root}/openai/v1"
        if version not in ("v1", "preview", "latest"):
            base_url = f"{root}/openai/deployments/{_quoted(deployment)}?api-version={_quoted(version)}"
    settings["base_url"] = base_url
    if auth is not None:
        settings["api_key"] = _checked(auth)
    sign_in = "key" if auth is None else "token"
    return reference("azure", deployment, {"base_url": base_url, "api": sign_in}, settings)


def vertex(
    model: str,
    project: str | None = None,
    location: str | None = None,
    *,
    auth: Auth | None = None,
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """Return a Gemini model of Vertex AI. Parameters and provider tools are those of `google`.

    Args:
        model: Name of the model, such as ``gemini-2.5-flash``.
        project: Id of the project. Default: GOOGLE_CLOUD_PROJECT, else the project of the credentials.
        location: Location, such as ``europe-west1`` or ``global``. Default:
            GOOGLE_CLOUD_LOCATION, else ``us-central1``.
        auth: A token or a function that returns one. Default: `ApplicationDefaultCredentials`.
        **options: Connection settings; `base_url` replaces ``https://{location}-aiplatform.googleapis.com/v1``.

    Raises:
        ValueError: There is no project.
    """
    settings: dict[str, Any] = {**options}
    if auth is None:
        auth = cast("Auth | None", settings.get("api_key")) or ApplicationDefaultCredentials()
    known = auth.project if isinstance(auth, ApplicationDefaultCredentials) else None
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT") or known
    if not project:
        message = "vertex needs a project: set project= or GOOGLE_CLOUD_PROJECT"
        raise ValueError(message)
    location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "us-central1"
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    root = str(settings.get("base_url") or f"https://{host}/v1").rstrip("/")
    place = f"projects/{_quoted(project)}/locations/{_quoted(location)}"
    settings["base_url"] = f"{root}/{place}/publishers/google"
    settings["api_key"] = _checked(auth)
    return reference("vertex", model, {"base_url": settings["base_url"]}, settings)


def _checked(auth: object) -> Any:
    if isinstance(auth, str) or callable(auth):
        return auth
    message = f"auth must be a token or a function that returns one, not {type(auth).__name__}"
    raise TypeError(message)


def _quoted(text: str) -> str:
    from urllib.parse import quote  # `import turntree` does not load it

    return quote(text, safe="")
