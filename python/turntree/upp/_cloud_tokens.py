"""Tokens of clouds: Entra, managed identities, service accounts and metadata servers.

The functions are called in a thread when a request needs a token. A token is kept until shortly before it expires.
Modules of the standard library that `import turntree` does not load are imported where they are used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from turntree._core import sign_rs256
from turntree._public_names import publish

# A token is renewed this long before it expires.
_MARGIN_SECONDS = 120.0
_TIMEOUT_SECONDS = 15.0
_AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class _TokenSource:
    """A function that returns a token, and keeps it until it expires. Safe to call from several threads."""

    __slots__ = ("_expires", "_lock", "_token")

    _place: ClassVar[str]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token = ""
        self._expires = 0.0

    def __call__(self) -> str:
        """Return a token.

        Raises:
            RuntimeError: The token cannot be obtained; the message says why, without secrets.
        """
        with self._lock:
            if time.monotonic() >= self._expires:
                self._token, lifetime = self._fetch()
                self._expires = time.monotonic() + max(lifetime - _MARGIN_SECONDS, 0.0)
            return self._token

    def _fetch(self) -> tuple[str, float]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    def __reduce__(self) -> Any:
        message = f"{type(self).__name__} has credentials and cannot be pickled"
        raise TypeError(message)


class EntraCredentials(_TokenSource):
    """Tokens of Entra for an application, by its secret. Use it as ``auth=`` of `azure`.

    Args:
        tenant_id: Id of the tenant. Default: AZURE_TENANT_ID.
        client_id: Id of the application. Default: AZURE_CLIENT_ID.
        client_secret: The secret. Default: AZURE_CLIENT_SECRET.
        authority: URL of the authority. Default: AZURE_AUTHORITY_HOST, else ``https://login.microsoftonline.com``.
        scope: The scope of the token.

    Raises:
        ValueError: A value is missing.
    """

    __slots__ = ("_authority", "_client_id", "_client_secret", "_scope", "_tenant_id")
    _place = "the token endpoint of Entra"

    def __init__(
        self,
        tenant_id: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        authority: str | None = None,
        scope: str = _AZURE_SCOPE,
    ) -> None:
        super().__init__()
        self._tenant_id = _required("tenant_id", tenant_id, "AZURE_TENANT_ID")
        self._client_id = _required("client_id", client_id, "AZURE_CLIENT_ID")
        self._client_secret = _required("client_secret", client_secret, "AZURE_CLIENT_SECRET")
        known = authority or os.environ.get("AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com"
        self._authority = known.rstrip("/")
        self._scope = scope

    def _fetch(self) -> tuple[str, float]:
        import urllib.parse

        tenant = urllib.parse.quote(self._tenant_id, safe="")
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_secret": self._client_secret,
            "scope": self._scope,
        }
        return _token_of(self._place, f"{self._authority}/{tenant}/oauth2/v2.0/token", form=form)


class ManagedIdentity(_TokenSource):
    """Tokens of the managed identity of an Azure machine or app. Use it as ``auth=`` of `azure`.

    Args:
        client_id: Client id of a user-assigned identity. Default: the system-assigned identity.
        endpoint: URL of the token endpoint. Default: IDENTITY_ENDPOINT of an app, else that of virtual machines.
        resource: The resource that the token is for.
    """

    __slots__ = ("_client_id", "_endpoint", "_resource")
    _place = "the endpoint of the managed identity"

    def __init__(
        self,
        client_id: str | None = None,
        *,
        endpoint: str | None = None,
        resource: str = "https://cognitiveservices.azure.com",
    ) -> None:
        super().__init__()
        self._client_id = client_id
        self._endpoint = endpoint
        self._resource = resource

    def _fetch(self) -> tuple[str, float]:
        import urllib.parse

        secret = os.environ.get("IDENTITY_HEADER")
        app = self._endpoint or os.environ.get("IDENTITY_ENDPOINT")
        query = {"resource": self._resource}
        if self._client_id:
            query["client_id"] = self._client_id
        if secret and app:
            query["api-version"] = "2019-08-01"
            url, headers = app, {"X-IDENTITY-HEADER": secret}
        else:
            query["api-version"] = "2018-02-01"
            url = self._endpoint or "http://169.254.169.254/metadata/identity/oauth2/token"
            headers = {"Metadata": "true"}
        return _token_of(self._place, f"{url}?{urllib.parse.urlencode(query)}", headers=headers)


class ApplicationDefaultCredentials(_TokenSource):
    """Tokens of Google Cloud, from the credentials of the environment. The default of `vertex`.

    In this order: the file of GOOGLE_APPLICATION_CREDENTIALS, that of ``gcloud auth application-default login``, and
    the metadata server of a machine of Google Cloud. Files of service accounts and of authorized users are known.

    Args:
        path: Path of a file, instead of that of the environment.
        metadata_host: Host of the metadata server. Default: GCE_METADATA_HOST, else ``metadata.google.internal``.

    Raises:
        ValueError: The file cannot be used.
    """

    __slots__ = ("_file", "_metadata_host")
    _place = "the token endpoint of Google"

    def __init__(self, path: str | os.PathLike[str] | None = None, *, metadata_host: str | None = None) -> None:
        super().__init__()
        self._file = _google_file(path)
        known = metadata_host or os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
        self._metadata_host = known

    @property
    def project(self) -> str | None:
        """The project of a service account, or None."""
        project = (self._file or {}).get("project_id")
        return project if isinstance(project, str) else None

    def _fetch(self) -> tuple[str, float]:
        file = self._file
        if file is None:
            url = f"http://{self._metadata_host}/computeMetadata/v1/instance/service-accounts/default/token"
            return _token_of("the metadata server", url, headers={"Metadata-Flavor": "Google"})
        url = str(file.get("token_uri") or "https://oauth2.googleapis.com/token")
        if file["type"] == "authorized_user":
            form = {"grant_type": "refresh_token"}
            form |= {name: str(file[name]) for name in ("client_id", "client_secret", "refresh_token")}
        else:
            grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
            form = {"grant_type": grant, "assertion": _assertion(file, url)}
        return _token_of(self._place, url, form=form)


def _google_file(path: str | os.PathLike[str] | None) -> Mapping[str, Any] | None:
    import json
    from pathlib import Path

    named = path or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    place = Path(named) if named else Path.home() / ".config" / "gcloud" / "application_default_credentials.json"
    if not named and not place.is_file():
        return None
    try:
        file = cast("dict[str, Any]", json.loads(place.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        message = f"the credentials of Google cannot be read: {type(error).__name__}; check {place}"
        raise ValueError(message) from None
    needed = {
        "service_account": ("client_email", "private_key"),
        "authorized_user": ("client_id", "client_secret", "refresh_token"),
    }.get(str(file.get("type")))
    if needed is None or any(not isinstance(file.get(name), str) for name in needed):
        message = f"{place} is not a file of a service account or an authorized user; pass auth= instead"
        raise ValueError(message)
    return file


def _assertion(file: Mapping[str, Any], audience: str) -> str:
    import base64
    import json

    now = int(time.time())
    header = {"alg": "RS256", "typ": "JWT"}
    if isinstance(file.get("private_key_id"), str):
        header["kid"] = file["private_key_id"]
    email = file["client_email"]
    claims = {"iss": email, "sub": email, "scope": _GOOGLE_SCOPE, "aud": audience, "iat": now, "exp": now + 3600}
    signed = b".".join(_encoded(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    lines = [line for line in str(file["private_key"]).splitlines() if line and not line.startswith("-----")]
    signature = sign_rs256(base64.b64decode("".join(lines)), signed)
    return (signed + b"." + _encoded(signature)).decode()


def _encoded(data: bytes) -> bytes:
    import base64

    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _required(name: str, value: str | None, variable: str) -> str:
    value = value or os.environ.get(variable)
    if not value:
        message = f"{name} is missing; pass it or set {variable}"
        raise ValueError(message)
    return value


def _token_of(
    place: str, url: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[str, float]:
    """Ask a token endpoint; return the token and its lifetime in seconds."""
    import json
    import urllib.error
    import urllib.parse
    import urllib.request

    data = None if form is None else urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))
    host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            body = json.loads(response.read())
        return str(body["access_token"]), float(body.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        # The body may quote the request; its short code says enough.
        try:
            with error:
                code = json.loads(error.read()).get("error")
        except ValueError:
            code = None
        detail = f" ({code})" if isinstance(code, str) else ""
        message = f"{place} at {host} refused the credentials: status {error.code}{detail}"
    except (OSError, ValueError, KeyError) as error:
        message = f"{place} at {host} gave no token: {type(error).__name__}"
    raise RuntimeError(message) from None


publish(__name__, globals())
