"""Models of clouds: `azure` and `vertex`, with the sign-in of the cloud."""

from __future__ import annotations

import os
from typing import Any

from turntree._core import ModelReference
from turntree._public_names import publish
from turntree._texts import encoded
from turntree._typing import Unpack
from turntree.upp._auth import sign_in_settings
from turntree.upp._cloud_tokens import ApplicationDefaultCredentials
from turntree.upp._providers import ProviderOptions, reference

_AZURE_VERSION = "2024-10-21"


def azure(
    deployment: str,
    endpoint: str | None = None,
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """Return a model of Azure OpenAI: a deployment, by Chat Completions.

    Environment variables of the key: AZURE_OPENAI_API_KEY, else AZURE_API_KEY.

    Args:
        deployment: Name of the deployment.
        endpoint: URL of the resource, such as ``https://name.openai.azure.com``. Default: AZURE_OPENAI_ENDPOINT.
        **options: Connection settings. `auth` is the sign-in with Entra instead of a key: a token, a function that
            returns one (as ``azure.identity.get_bearer_token_provider``), `EntraCredentials`, `ManagedIdentity`, or an
            object with ``sign(request)``. `api_version` is ``v1`` or a date, by default OPENAI_API_VERSION, else
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
            place = f"deployments/{_quoted(deployment, 'deployment')}"
            base_url = f"{root}/openai/{place}?api-version={_quoted(version, 'api_version')}"
    settings["base_url"] = base_url
    auth: Any = settings.pop("auth", None)
    if auth is not None:
        settings.update(sign_in_settings(auth))
    sign_in = "key" if auth is None else "token"
    return reference("azure", deployment, {"base_url": base_url, "api": sign_in}, settings)


def vertex(
    model: str,
    project: str | None = None,
    location: str | None = None,
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """Return a model of Vertex AI: Gemini, or Claude by its name.

    Parameters and provider tools are those of `google`, or of `anthropic`.

    Args:
        model: Name of the model, such as ``gemini-2.5-flash`` or ``claude-sonnet-4-5@20250929``.
        project: Id of the project. Default: GOOGLE_CLOUD_PROJECT, else the project of the credentials.
        location: Location, such as ``europe-west1`` or ``global``. Default:
            GOOGLE_CLOUD_LOCATION, else ``us-central1``.
        **options: Connection settings. `auth` is a token, a function that returns one, or an object with
            ``sign(request)``, by default `ApplicationDefaultCredentials`. `base_url` replaces ``https://{location}-aiplatform.googleapis.com/v1``.

    Raises:
        ValueError: There is no project.
    """
    settings: dict[str, Any] = {**options}
    auth: Any = settings.pop("auth", None)
    if auth is None:
        auth = settings.get("api_key") or ApplicationDefaultCredentials()
    known = auth.project if isinstance(auth, ApplicationDefaultCredentials) else None
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT") or known
    if not project:
        message = "vertex needs a project: set project= or GOOGLE_CLOUD_PROJECT"
        raise ValueError(message)
    location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "us-central1"
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    root = str(settings.get("base_url") or f"https://{host}/v1").rstrip("/")
    place = f"projects/{_quoted(project, 'project')}/locations/{_quoted(location, 'location')}"
    is_claude = model.startswith("claude")
    settings["base_url"] = f"{root}/{place}/publishers/{'anthropic' if is_claude else 'google'}"
    settings.update(sign_in_settings(auth))
    if is_claude:
        return reference("anthropic", model, {"api": "vertex", "base_url": settings["base_url"]}, settings)
    return reference("vertex", model, {"base_url": settings["base_url"]}, settings)


def _quoted(text: str, argument: str) -> str:
    from urllib.parse import quote  # `import turntree` does not load it

    return quote(encoded(text, argument), safe="")


publish(__name__, globals())
