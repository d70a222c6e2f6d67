"""The providers that speak OpenAI's Chat Completions: one row each, nothing but values.

A row says where the provider is, which environment variables hold its key, how its dialect differs, and which model
names are its own. Two sites of one company with keys of their own are two rows, or one row whose `note` says so.
"""

from __future__ import annotations

from typing import Final

import msgspec

from loopwright.models.addresses import host_of
from loopwright.models.openai_chat.dialect import Dialect

__all__ = ["ALIASES", "ELSEWHERE", "FORMATS", "PROVIDERS", "Provider", "provider_at"]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One row."""

    name: str
    base_url: str = ""
    """Empty where every customer has an address of his own: then it must be given, or be in `base_url_env`."""
    key_env: tuple[str, ...] = ()
    """Looked up in this order."""
    base_url_env: tuple[str, ...] = ()
    needs_key: bool = True
    key_header: str = "authorization"
    """The header of the key; `authorization` gets "Bearer" before it."""
    dialect: Dialect = Dialect()
    models: tuple[str, ...] = ()
    """Beginnings of model names that belong to this provider alone, in lower case."""
    structured_output: bool = False
    """Its models hold to a JSON schema and call tools in the same answer."""
    note: str = ""
    """Where else a key may belong, for the error that says it was refused."""


_OPENAI: Final = Dialect(max_tokens="max_completion_tokens")
_NEVER_REQUIRED: Final = Dialect(required=None)

_ROWS: Final = (
    Provider(
        name="openai",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        base_url_env=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        dialect=_OPENAI,
        models=("gpt-", "o1", "o3", "o4", "chatgpt-", "codex-"),
        structured_output=True,
    ),
    Provider(
        name="azure",
        key_env=("AZURE_OPENAI_API_KEY",),
        base_url_env=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
        key_header="api-key",
        dialect=_OPENAI,
        structured_output=True,
    ),
    Provider(
        name="deepseek",
        base_url="https://api.deepseek.com/v1",
        key_env=("DEEPSEEK_API_KEY",),
        dialect=Dialect(
            text_parts=False,
            json_schema=False,
            strict=False,
            parallel_tool_calls=False,
            send_back="reasoning_content",
            send_back_always=True,
        ),
        models=("deepseek-",),
    ),
    Provider(
        name="qwen",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        key_env=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
        dialect=Dialect(required=None, strict=False),
        models=("qwen", "qwq-", "qvq-"),
        note="a key of Alibaba Cloud International needs base_url='https://dashscope-intl.aliyuncs.com/compatible-mode/v1'",
    ),
    Provider(
        name="moonshot",
        base_url="https://api.moonshot.ai/v1",
        key_env=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
        dialect=Dialect(required=None, send_back="reasoning_content", send_back_always=True),
        models=("kimi", "moonshot-"),
        note="a key of platform.moonshot.cn needs base_url='https://api.moonshot.cn/v1'",
    ),
    Provider(
        name="zhipu",
        base_url="https://open.bigmodel.cn/api/paas/v4",
        key_env=("ZHIPUAI_API_KEY", "ZHIPU_API_KEY", "BIGMODEL_API_KEY"),
        dialect=Dialect(required=None, strict=False, send_back="reasoning_content"),
        models=("glm-", "charglm-", "codegeex-"),
        note="a key of z.ai belongs to the provider 'zai'",
    ),
    Provider(
        name="zai",
        base_url="https://api.z.ai/api/paas/v4",
        key_env=("ZAI_API_KEY",),
        dialect=Dialect(required=None, strict=False, send_back="reasoning_content"),
        note="a key of bigmodel.cn belongs to the provider 'zhipu'",
    ),
    Provider(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        dialect=_OPENAI,
    ),
    Provider(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        dialect=Dialect(
            required="any",
            seed="random_seed",
            stream_options=False,
            names=False,
            null_content=False,
            short_ids=True,
            send_back="thinking",
            document_urls=True,
        ),
        models=("mistral-", "ministral-", "magistral-", "codestral-", "devstral-", "pixtral-", "voxtral-", "open-mi"),
    ),
    Provider(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        dialect=Dialect(send_back="reasoning_details"),
    ),
    Provider(
        name="xai",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        dialect=_OPENAI,
        models=("grok-",),
    ),
    Provider(
        name="ollama",
        base_url="http://localhost:11434/v1",
        key_env=("OLLAMA_API_KEY",),
        base_url_env=("OLLAMA_BASE_URL",),
        needs_key=False,
    ),
    Provider(
        name="vllm",
        base_url="http://localhost:8000/v1",
        key_env=("VLLM_API_KEY",),
        base_url_env=("VLLM_BASE_URL",),
        needs_key=False,
    ),
    Provider(
        name="lmstudio",
        base_url="http://localhost:1234/v1",
        key_env=("LMSTUDIO_API_KEY", "LM_STUDIO_API_KEY"),
        base_url_env=("LMSTUDIO_BASE_URL",),
        needs_key=False,
    ),
    Provider(
        name="llamacpp",
        base_url="http://localhost:8080/v1",
        key_env=("LLAMA_API_KEY",),
        base_url_env=("LLAMACPP_BASE_URL",),
        needs_key=False,
    ),
    Provider(
        name="sglang",
        base_url="http://localhost:30000/v1",
        key_env=("SGLANG_API_KEY",),
        base_url_env=("SGLANG_BASE_URL",),
        needs_key=False,
    ),
    Provider(
        name="litellm",
        base_url="http://localhost:4000/v1",
        key_env=("LITELLM_API_KEY",),
        base_url_env=("LITELLM_BASE_URL",),
        needs_key=False,
    ),
    Provider(
        name="together",
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
    ),
    Provider(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        dialect=Dialect(send_back="reasoning_content"),
    ),
    Provider(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        key_env=("CEREBRAS_API_KEY",),
        dialect=_OPENAI,
    ),
    Provider(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        key_env=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        dialect=Dialect(stream_options=False),
        models=("sonar",),
    ),
    Provider(
        name="nvidia",
        base_url="https://integrate.api.nvidia.com/v1",
        key_env=("NVIDIA_API_KEY",),
    ),
    Provider(
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        key_env=("HF_TOKEN", "HUGGINGFACEHUB_API_TOKEN", "HUGGINGFACE_API_KEY"),
    ),
    Provider(
        name="sambanova",
        base_url="https://api.sambanova.ai/v1",
        key_env=("SAMBANOVA_API_KEY",),
    ),
    Provider(
        name="siliconflow",
        base_url="https://api.siliconflow.cn/v1",
        key_env=("SILICONFLOW_API_KEY",),
        dialect=_NEVER_REQUIRED,
        note="a key of siliconflow.com needs base_url='https://api.siliconflow.com/v1'",
    ),
    Provider(
        name="minimax",
        base_url="https://api.minimax.io/v1",
        key_env=("MINIMAX_API_KEY",),
        dialect=Dialect(send_back="reasoning_details"),
        models=("minimax-", "abab"),
        note="a key of minimaxi.com needs base_url='https://api.minimaxi.com/v1'",
    ),
    Provider(
        name="doubao",
        base_url="https://ark.cn-beijing.volces.com/api/v3",
        key_env=("ARK_API_KEY", "VOLCENGINE_API_KEY", "DOUBAO_API_KEY"),
        models=("doubao-",),
    ),
    Provider(
        name="hunyuan",
        base_url="https://api.hunyuan.cloud.tencent.com/v1",
        key_env=("HUNYUAN_API_KEY",),
        dialect=_NEVER_REQUIRED,
        models=("hunyuan-",),
    ),
    Provider(
        name="qianfan",
        base_url="https://qianfan.baidubce.com/v2",
        key_env=("QIANFAN_API_KEY",),
        models=("ernie-",),
    ),
    Provider(
        name="stepfun",
        base_url="https://api.stepfun.com/v1",
        key_env=("STEPFUN_API_KEY", "STEP_API_KEY"),
        models=("step-",),
    ),
    Provider(
        name="baichuan",
        base_url="https://api.baichuan-ai.com/v1",
        key_env=("BAICHUAN_API_KEY",),
        dialect=_NEVER_REQUIRED,
        models=("baichuan",),
    ),
    Provider(
        name="modelscope",
        base_url="https://api-inference.modelscope.cn/v1",
        key_env=("MODELSCOPE_API_KEY", "MODELSCOPE_API_TOKEN"),
    ),
    Provider(
        name="github",
        base_url="https://models.github.ai/inference",
        key_env=("GITHUB_TOKEN", "GITHUB_API_KEY"),
    ),
    Provider(
        name="deepinfra",
        base_url="https://api.deepinfra.com/v1/openai",
        key_env=("DEEPINFRA_API_KEY", "DEEPINFRA_API_TOKEN"),
    ),
    Provider(
        name="novita",
        base_url="https://api.novita.ai/openai/v1",
        key_env=("NOVITA_API_KEY",),
    ),
    Provider(
        name="cohere",
        base_url="https://api.cohere.ai/compatibility/v1",
        key_env=("COHERE_API_KEY", "CO_API_KEY"),
        models=("command-",),
    ),
    Provider(
        name="upstage",
        base_url="https://api.upstage.ai/v1",
        key_env=("UPSTAGE_API_KEY",),
        models=("solar-",),
    ),
    Provider(
        name="vercel",
        base_url="https://ai-gateway.vercel.sh/v1",
        key_env=("AI_GATEWAY_API_KEY",),
    ),
)

PROVIDERS: Final[dict[str, Provider]] = {row.name: row for row in _ROWS}

ALIASES: Final[dict[str, str]] = {
    "azure_openai": "azure",
    "dashscope": "qwen",
    "tongyi": "qwen",
    "alibaba": "qwen",
    "kimi": "moonshot",
    "moonshotai": "moonshot",
    "zhipuai": "zhipu",
    "bigmodel": "zhipu",
    "glm": "zhipu",
    "z.ai": "zai",
    "mistralai": "mistral",
    "grok": "xai",
    "x-ai": "xai",
    "lm_studio": "lmstudio",
    "llama.cpp": "llamacpp",
    "llama_cpp": "llamacpp",
    "together_ai": "together",
    "togetherai": "together",
    "fireworks_ai": "fireworks",
    "nvidia_nim": "nvidia",
    "nim": "nvidia",
    "hf": "huggingface",
    "volcengine": "doubao",
    "ark": "doubao",
    "ernie": "qianfan",
    "github_models": "github",
    "google_genai": "google",
    "gemini": "google",
    "vertexai": "google_vertexai",
    "google-vertex": "google_vertexai",
}
"""Other names that users know a provider by."""

FORMATS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "anthropic": ("anthropic.model", "ChatAnthropic", ("claude-",)),
    "anthropic_bedrock": ("anthropic.bedrock", "ChatAnthropicBedrock", ()),
    "google": ("google.model", "ChatGoogleGenerativeAI", ("gemini-", "gemma-")),
    "google_vertexai": ("google.model", "ChatVertexAI", ()),
}
"""Providers with a format of their own: module and class that speak it, and beginnings of their models' names."""

_CLAUDE_ON_BEDROCK: Final = "anthropic_bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0"

ELSEWHERE: Final[dict[str, str]] = {"bedrock": _CLAUDE_ON_BEDROCK, "bedrock_converse": _CLAUDE_ON_BEDROCK}
"""Providers whose own wire format is not spoken here, and a name by which models of theirs are reached."""


_HOSTS: Final = {
    host_of(row.base_url): row.name for row in _ROWS if row.base_url and not row.base_url.startswith("http://localhost")
} | {
    "api.moonshot.cn": "moonshot",
    "dashscope-intl.aliyuncs.com": "qwen",
    "dashscope-us.aliyuncs.com": "qwen",
    "api.siliconflow.com": "siliconflow",
    "api.minimaxi.com": "minimax",
    "api.together.ai": "together",
}


def provider_at(base_url: str) -> Provider | None:
    """The row that this address belongs to, None for an address that nobody here knows."""
    host = host_of(base_url)
    if host.endswith((".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")):
        return PROVIDERS["azure"]
    name = _HOSTS.get(host)
    return PROVIDERS[name] if name else None
