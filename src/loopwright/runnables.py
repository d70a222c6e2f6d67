"""Door: the config of a call, where users of LangChain look for it."""

from loopwright.scope import RunnableConfig, ensure_config, merge_configs

__all__ = ["RunnableConfig", "ensure_config", "merge_configs"]
