"""From "provider:model" to a chat model.

Rules:

- importing this module imports no model class: which one it takes is decided by the name, and imported then;
- the provider may be left out where the model's name belongs to one provider only ("gpt-4o", "deepseek-chat");
- what is missing is said when the model is made, not when it is called: the key's variable, the pip line, near names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from loopwright.errors import UsageError
from loopwright.models.providers import ALIASES, ELSEWHERE, FORMATS, PROVIDERS, Provider

if TYPE_CHECKING:
    from loopwright.models.base import BaseChatModel

__all__ = ["find_key", "infer_provider", "init_chat_model", "provider_named", "split_name"]


def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Any = None,
    config_prefix: str | None = None,
    **kwargs: Any,
) -> BaseChatModel:
    """Make a chat model from its name: `init_chat_model("openai:gpt-4o-mini", temperature=0)`.

    `kwargs` are the model's own fields. "local:" is the model in this process, "local:/path/model.gguf" one of yours.
    Raises `UsageError`, which says what to write instead.
    """
    if configurable_fields or config_prefix:
        raise UsageError(
            "a model whose fields are chosen by config is not there: make one model for each setting, "
            "or pick it per call with a wrap_model_call hook"
        )
    if not isinstance(model, str) or not model.strip():
        what = "no name" if model is None else f"{model!r}"
        raise UsageError(f'init_chat_model was given {what} for a model: write init_chat_model("openai:gpt-4o-mini")')
    provider, name = split_name(model.strip(), model_provider)
    if provider == "local":
        from loopwright.models.local import ChatLocal

        return ChatLocal(model=name, **kwargs)
    if not name:
        raise UsageError(f"{model!r} names no model: write {provider}:<model>")
    if provider in FORMATS:
        from importlib import import_module

        module, cls, _ = FORMATS[provider]
        return getattr(import_module(f"loopwright.models.{module}"), cls)(model=name, **kwargs)
    row = provider_named(provider)
    if row.name == "azure":
        from loopwright.models.openai_chat.azure import AzureChatOpenAI

        return AzureChatOpenAI(model=name, **kwargs)
    from loopwright.models.openai_chat.model import ChatOpenAI

    return ChatOpenAI(model=name, provider=row.name, **kwargs)


def split_name(model: str, model_provider: str | None = None) -> tuple[str, str]:
    """(provider, model) of a name. Raises `UsageError` where the provider cannot be told."""
    before, colon, after = model.partition(":")
    known = _known(before.lower())
    if model_provider is not None:
        provider = _known(model_provider.lower()) or model_provider
        return provider, after.strip() if colon and known == provider else model
    if colon and known is not None:
        return known, after.strip()
    provider = infer_provider(model)
    if provider is not None:
        return provider, model
    if colon and "/" not in before:
        provider_named(before)
    raise UsageError(
        f"the model {model!r} names no provider, and its name belongs to none: write provider:model or give "
        f"model_provider=. For instance {_examples(model)}. Providers: {_all_names()}"
    )


def infer_provider(model: str) -> str | None:
    """The only provider that has models of such a name."""
    name = model.lower()
    if name.endswith(".gguf"):
        return "local"
    for row in PROVIDERS.values():
        if row.models and name.startswith(row.models):
            return row.name
    for provider, (_, _, beginnings) in FORMATS.items():
        if beginnings and name.startswith(beginnings):
            return provider
    return None


def provider_named(name: str) -> Provider:
    """The row of a provider or of one of its other names. Raises `UsageError` with the near ones."""
    known = _known(name.lower())
    if known in PROVIDERS:
        return PROVIDERS[known]
    if known in ELSEWHERE:
        raise UsageError(
            f"the format of {name!r} is not spoken here: take init_chat_model({ELSEWHERE[known]!r}) or another model "
            "that Bedrock serves in Anthropic's format"
        )
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), [*PROVIDERS, *FORMATS, *ALIASES, "local"], n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise UsageError(
        f"no provider of models is called {name!r}.{hint} Known: {_all_names()}. "
        'Any other server that speaks OpenAI\'s format: ChatOpenAI(model="...", base_url="https://...", api_key="...")'
    )


def find_key(row: Provider) -> str | None:
    """The provider's key from the environment."""
    for variable in row.key_env:
        key = os.environ.get(variable, "").strip()
        if key:
            return key
    return None


def _known(name: str) -> str | None:
    if name == "local" or name in PROVIDERS or name in FORMATS or name in ELSEWHERE:
        return name
    return ALIASES.get(name)


def _examples(model: str) -> str:
    if "/" in model:
        return f'"openrouter:{model}" or "huggingface:{model}"'
    return f'"ollama:{model}" or "openai:gpt-4o-mini"'


def _all_names() -> str:
    return ", ".join([*PROVIDERS, *FORMATS, "local"])
