from __future__ import annotations

from typing import Any

import pytest

from loopwright.errors import UsageError
from loopwright.models.catalogue import find_key, infer_provider, init_chat_model, provider_named, split_name
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.providers import ALIASES, ELSEWHERE, FORMATS, PROVIDERS, Provider, provider_at

KEY = "sk-test-123456"


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.base_url_env):
            monkeypatch.delenv(name, raising=False)


def made(*args: Any, **kwargs: Any) -> ChatOpenAI:
    model = init_chat_model(*args, **kwargs)
    assert isinstance(model, ChatOpenAI)
    return model


# -- names ----------------------------------------------------------------------------------------------------------


def test_a_name_with_its_provider():
    model = made("openai:gpt-4o-mini", api_key=KEY, temperature=0)
    assert (model.model, model.provider, model.temperature) == ("gpt-4o-mini", "openai", 0)
    assert model.base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_every_row_makes_a_model(row: Provider, monkeypatch: pytest.MonkeyPatch):
    url = {"base_url": "https://mine.openai.azure.com"} if not row.base_url else {}
    if row.needs_key:
        with pytest.raises(UsageError, match=f"no key for {row.name}: set {row.key_env[0]}"):
            init_chat_model(f"{row.name}:some-model", **url)
        monkeypatch.setenv(row.key_env[-1], KEY)
    model = made(f"{row.name}:some-model", **url)
    assert (model.provider, model.model) == (row.name, "some-model")
    assert model.base_url.startswith(row.base_url or "https://mine.openai.azure.com")
    assert not model.base_url.endswith("/")


@pytest.mark.parametrize(
    ("given", "provider", "wanted"),
    [
        ("gpt-4o", None, ("openai", "gpt-4o")),
        ("o3-mini", None, ("openai", "o3-mini")),
        ("deepseek-chat", None, ("deepseek", "deepseek-chat")),
        ("qwen-max", None, ("qwen", "qwen-max")),
        ("Qwen3-max", None, ("qwen", "Qwen3-max")),
        ("glm-4.6", None, ("zhipu", "glm-4.6")),
        ("kimi-k2", None, ("moonshot", "kimi-k2")),
        ("moonshot-v1-8k", None, ("moonshot", "moonshot-v1-8k")),
        ("mistral-large-latest", None, ("mistral", "mistral-large-latest")),
        ("grok-4", None, ("xai", "grok-4")),
        ("sonar-pro", None, ("perplexity", "sonar-pro")),
        ("claude-sonnet-4-5", None, ("anthropic", "claude-sonnet-4-5")),
        ("gemini-2.5-pro", None, ("google", "gemini-2.5-pro")),
        ("/models/a.GGUF", None, ("local", "/models/a.GGUF")),
        ("local:", None, ("local", "")),
        ("local:/models/a.gguf", None, ("local", "/models/a.gguf")),
        ("ollama:llama3:8b", None, ("ollama", "llama3:8b")),
        ("OpenAI: gpt-4o", None, ("openai", "gpt-4o")),
        ("kimi:k2", None, ("moonshot", "k2")),
        ("openrouter:openai/gpt-4o:free", None, ("openrouter", "openai/gpt-4o:free")),
        ("llama3:8b", "ollama", ("ollama", "llama3:8b")),
        ("gpt-4o", "openrouter", ("openrouter", "gpt-4o")),
        ("openai:gpt-4o", "openai", ("openai", "gpt-4o")),
        ("gpt-4o", "azure_openai", ("azure", "gpt-4o")),
        ("x", "nosuch", ("nosuch", "x")),
    ],
)
def test_splitting_names(given: str, provider: str | None, wanted: tuple[str, str]):
    assert split_name(given, provider) == wanted


def test_names_of_nobody():
    assert infer_provider("no-such-model-anywhere") is None
    assert infer_provider("meta-llama/Llama-3-8B") is None


# -- mistakes -------------------------------------------------------------------------------------------------------


def wrong(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(UsageError) as caught:
        init_chat_model(*args, **kwargs)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_a_name_that_nobody_knows():
    words = wrong("no-such-model-anywhere")
    for word in (
        "no-such-model-anywhere",
        "provider:model",
        "model_provider=",
        "ollama:no-such-model-anywhere",
        "deepseek",
    ):
        assert word in words
    assert "openrouter:meta-llama/Llama-3-8B" in wrong("meta-llama/Llama-3-8B")


def test_a_provider_that_nobody_knows():
    assert "no provider of models is called 'nosuch'" in wrong("x", model_provider="nosuch")
    assert "Did you mean 'openai'" in wrong("opnai:gpt-4o")
    assert "Did you mean 'deepseek'" in wrong("x", model_provider="deepsek")
    assert "base_url=" in wrong("nosuch:x")


def test_providers_of_another_format_say_what_to_take():
    assert "init_chat_model('anthropic_bedrock:anthropic.claude" in wrong("bedrock:x")
    assert "'bedrock_converse'" in wrong("bedrock_converse:x")


@pytest.mark.parametrize(
    ("name", "kwargs", "kind"),
    [
        ("anthropic:claude-sonnet-4-5", {"api_key": KEY}, "ChatAnthropic"),
        ("gemini-2.5-pro", {"api_key": KEY}, "ChatGoogleGenerativeAI"),
        ("google_genai:gemini-2.5-pro", {"api_key": KEY}, "ChatGoogleGenerativeAI"),
        ("google_vertexai:gemini-2.5-pro", {"api_key": KEY}, "ChatVertexAI"),
        ("claude-sonnet-4-5", {"api_key": KEY}, "ChatAnthropic"),
        ("anthropic_bedrock:anthropic.claude-3", {"region_name": "us-east-1"}, "ChatAnthropicBedrock"),
    ],
)
def test_providers_with_a_format_of_their_own(name: str, kwargs: dict[str, Any], kind: str):
    model: Any = init_chat_model(name, **kwargs)
    assert type(model).__name__ == kind
    assert model.model == name.rpartition(":")[2]


def test_no_name():
    assert 'was given no name for a model: write init_chat_model("openai:gpt-4o-mini")' in wrong()
    assert "was given 7 for a model" in wrong(7)
    assert "was given ' ' for a model" in wrong(" ")
    assert "names no model: write openai:<model>" in wrong("openai:")


def test_a_model_that_config_chooses_is_not_there():
    assert "wrap_model_call" in wrong("openai:m", configurable_fields=("temperature",))
    assert "wrap_model_call" in wrong("openai:m", config_prefix="a")


# -- the table ------------------------------------------------------------------------------------------------------


def test_the_table():
    assert len(PROVIDERS) >= 35
    for name, row in PROVIDERS.items():
        assert name == row.name == name.lower()
        assert row.key_env
        assert row.base_url or row.base_url_env
        assert row.base_url == row.base_url.rstrip("/")
        assert not row.base_url or row.base_url.startswith("https://" if row.needs_key else "http://localhost:")
    assert set(ALIASES.values()) <= {*PROVIDERS, *FORMATS}
    assert not set(ALIASES) & (set(PROVIDERS) | set(FORMATS) | set(ELSEWHERE) | {"local"})


def test_no_model_name_belongs_to_two():
    beginnings = [one for row in PROVIDERS.values() for one in row.models]
    beginnings += [one for _, _, names in FORMATS.values() for one in names]
    clashes = [(a, b) for a in beginnings for b in beginnings if a is not b and a.startswith(b)]
    assert clashes == []


def test_rows_by_other_names():
    assert provider_named("Kimi") is PROVIDERS["moonshot"]
    assert provider_named("dashscope") is PROVIDERS["qwen"]


def test_rows_by_address():
    for row in PROVIDERS.values():
        if row.base_url and row.needs_key:
            assert provider_at(row.base_url) is row
    assert provider_at("http://localhost:8000/v1") is None
    assert provider_at("https://user@API.OpenAI.com/v1") is PROVIDERS["openai"]


def test_keys_are_found_in_order(monkeypatch: pytest.MonkeyPatch):
    row = PROVIDERS["zhipu"]
    assert find_key(row) is None
    monkeypatch.setenv("ZHIPU_API_KEY", "second")
    monkeypatch.setenv("ZHIPUAI_API_KEY", "  ")
    assert find_key(row) == "second"
    monkeypatch.setenv("ZHIPUAI_API_KEY", "first")
    assert find_key(row) == "first"


def test_a_model_in_this_process():
    assert "the model file '/nowhere/x.gguf' cannot be read" in wrong("local:/nowhere/x.gguf")
    assert "'/nowhere/x.gguf'" in wrong("/nowhere/x.gguf")
