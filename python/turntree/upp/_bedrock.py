"""Models of Amazon Bedrock."""

from __future__ import annotations

import os
from typing import Any

from turntree._core import ModelReference
from turntree._public_names import publish
from turntree._typing import Unpack
from turntree.upp._auth import sign_in_settings
from turntree.upp._providers import ProviderOptions, reference


def bedrock(
    model: str,
    region: str | None = None,
    *,
    profile: str | None = None,
    role: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """Return a model of Amazon Bedrock, of any vendor, by Converse.

    Requests are signed with credentials of AWS from, in this order: the environment (AWS_ACCESS_KEY_ID), the profile of
    the shared files (keys, single sign-on, a program, a role), a web identity, the container, and the machine. A key of
    Bedrock is sent instead if AWS_BEARER_TOKEN_BEDROCK is set. Parameters are those of Converse, such as
    ``params={"inferenceConfig": {"maxTokens": 500}}``.

    Args:
        model: Id of a model or of an inference profile, such as ``eu.anthropic.claude-sonnet-4-5-20250929-v1:0``, or
            an ARN.
        region: Region, such as ``eu-central-1``. Default: AWS_REGION, AWS_DEFAULT_REGION, else that of the profile.
        profile: Profile of the shared files, before the environment. Default: AWS_PROFILE.
        role: ARN of a role to assume with the credentials. Default: that of the profile.
        access_key_id: Id of an access key; `secret_access_key` and, for temporary keys, `session_token` go with it.
        secret_access_key: The secret of the access key.
        session_token: The token of temporary keys.
        **options: Connection settings. `auth` is a key of Bedrock, a function that returns one, or an object with
            ``sign(request)``, instead of the signature of AWS. `base_url` replaces ``https://bedrock-runtime.{region}.amazonaws.com``.

    Raises:
        ValueError: There is no region, or a part of an access key is missing.
    """
    settings: dict[str, Any] = {**options}
    if (access_key_id is None) != (secret_access_key is None):
        message = "access_key_id and secret_access_key go together; pass both or none"
        raise ValueError(message)
    named = _profile(profile)
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or named.get("region")
    if not region:
        message = "bedrock needs a region: set region= or AWS_REGION"
        raise ValueError(message)
    aws = {"region": region, "access_key_id": access_key_id, "secret_access_key": secret_access_key}
    aws["session_token"] = session_token
    has_keys = access_key_id is not None or (profile is None and bool(os.environ.get("AWS_ACCESS_KEY_ID")))
    if not has_keys and named.get("source_profile"):
        profile, role = named["source_profile"], role or named.get("role_arn")
    aws["profile"], aws["role"] = profile, role
    auth: Any = settings.pop("auth", None)
    if auth is not None:
        settings.update(sign_in_settings(auth))
    given = {name: value for name, value in aws.items() if value is not None}
    if settings.get("base_url") is not None:
        given["base_url"] = str(settings["base_url"])
    return reference("bedrock", model, given, settings)


def _profile(name: str | None) -> dict[str, str]:
    """Return the members of a profile of the shared configuration; nothing if there is none."""
    import configparser  # `import turntree` does not load it
    from pathlib import Path

    path = Path(os.environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws" / "config")
    name = name or os.environ.get("AWS_PROFILE") or "default"
    parser = configparser.ConfigParser(interpolation=None, strict=False, default_section="\0")
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    section = name if name == "default" else f"profile {name}"
    return dict(parser[section]) if parser.has_section(section) else {}


publish(__name__, globals())
