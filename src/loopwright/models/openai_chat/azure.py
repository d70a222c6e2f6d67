"""`AzureChatOpenAI`: OpenAI's models at Azure, where a model has the name of its deployment.

Rules:

- without `api_version`, or with `v1`, `preview` or `latest`, the address is `/openai/v1/...`; with a dated one it is
  `/openai/deployments/<deployment>/chat/completions` or `/openai/responses`, and the version is a parameter;
- a token of Entra ID goes before a key; a function that gives tokens is called for each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import Field, SecretStr

from loopwright.errors import UsageError
from loopwright.models.openai_chat.model import ChatOpenAI
from loopwright.models.openai_chat.settings import SPELLINGS
from loopwright.models.settings import first_env, given_key, settle_names, sound_key, with_query
from loopwright.models.wire_errors import Peer

__all__ = ["AzureChatOpenAI"]

_SPELLINGS: Final = {"deployment_name": "azure_deployment", "openai_api_version": "api_version"}
_USAGE_SINCE: Final = "2024-09"
"""Earlier versions refuse to be asked for token counts in streams."""
_UNDATED: Final = frozenset({"", "v1", "preview", "latest"})


class AzureChatOpenAI(ChatOpenAI):
    """A chat model at Azure OpenAI, by Chat Completions or Responses.

    Raises `UsageError` without an endpoint, a deployment, or a key or token.
    """

    model: str = ""
    """What the model is called that is deployed; without it, as its deployment."""
    azure_endpoint: str = ""
    """`https://<resource>.openai.azure.com`; without it `AZURE_OPENAI_ENDPOINT`. `base_url` is a whole address instead,
    up to and with `/v1`."""
    azure_deployment: str | None = None
    """The deployment; without it, one that is called as the model."""
    api_version: str | None = None
    """A dated version of the older addresses, `2024-10-21` for instance; without it `OPENAI_API_VERSION`."""
    azure_ad_token: Any = Field(default=None, exclude=True, repr=False)
    """A token of Entra ID; without it `AZURE_OPENAI_AD_TOKEN`, if there is no key."""
    azure_ad_token_provider: Callable[[], str] | None = Field(default=None, exclude=True, repr=False)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**_settled(type(self), fields))

    @property
    def wire_model(self) -> str:
        return self.azure_deployment or self.model

    def _key(self) -> str | None:
        provider = self.azure_ad_token_provider
        if provider is not None:
            token: Any = provider()
            if not isinstance(token, str):
                kind = type(token).__name__
                raise UsageError(f"azure_ad_token_provider gave {kind}: it is a plain function that returns the token")
            return sound_key(token)
        if self.azure_ad_token is not None:
            return cast("SecretStr", self.azure_ad_token).get_secret_value()
        return super()._key()

    def _authorization(self, key: str) -> tuple[str, str]:
        if self.azure_ad_token_provider is not None or self.azure_ad_token is not None:
            return "authorization", f"Bearer {key}"
        return super()._authorization(key)

    def _endpoint(self, path: str) -> str:
        version = self.api_version or ""
        query = {**({"api-version": version} if version not in ("", "v1") else {}), **(self.default_query or {})}
        if version not in _UNDATED and path != "responses" and "/deployments/" not in self.base_url:
            path = f"deployments/{self.wire_model}/{path}"
        return with_query(f"{self.base_url}/{path}", query)

    def _peer(self, key: str | None, api: str) -> Peer:
        peer = super()._peer(key, api)
        if self.azure_ad_token_provider is not None or self.azure_ad_token is not None:
            peer.key_hint = "the token comes from azure_ad_token_provider=, azure_ad_token= or AZURE_OPENAI_AD_TOKEN"
        return peer


def _settled(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Address, deployment and token found; the rest is `ChatOpenAI`'s."""
    settle_names(cls, fields, {**SPELLINGS, **_SPELLINGS})
    fields["provider"] = "azure"
    fields["model"] = fields.get("model") or fields.get("azure_deployment")
    if not fields["model"]:
        raise UsageError(f'{cls.__name__} needs a deployment: {cls.__name__}(azure_deployment="my-gpt-4o", ...)')
    version = fields["api_version"] = fields.get("api_version") or first_env(("OPENAI_API_VERSION",)) or None
    if version and version[:2] == "20" and version < _USAGE_SINCE:
        fields.setdefault("stream_usage", False)
    if not fields.get("base_url"):
        whole = "" if fields.get("azure_endpoint") else first_env(("AZURE_OPENAI_BASE_URL",))
        fields["base_url"] = whole or _address(cls, fields, version or "")
    has_key = bool(fields.get("api_key") or first_env(("AZURE_OPENAI_API_KEY",)))
    token = fields.get("azure_ad_token") or (None if has_key else first_env(("AZURE_OPENAI_AD_TOKEN",)))
    fields["azure_ad_token"] = given_key(token) if token else None
    if (token or fields.get("azure_ad_token_provider")) and not has_key:
        fields["api_key"] = ""
    return fields


def _address(cls: Any, fields: dict[str, Any], version: str) -> str:
    endpoint = fields.get("azure_endpoint") or first_env(("AZURE_OPENAI_ENDPOINT",))
    if not endpoint:
        raise UsageError(
            f"{cls.__name__} needs the address of your resource: "
            'azure_endpoint="https://<resource>.openai.azure.com" or AZURE_OPENAI_ENDPOINT'
        )
    fields["azure_endpoint"] = endpoint = endpoint.rstrip("/")
    root = endpoint.removesuffix("/v1").removesuffix("/openai")
    return f"{root}/openai/v1" if version in _UNDATED else f"{root}/openai"
