"""A real server with a real small model on loopback, in a process of its own: `python server.py MODEL`.

It prints its address when it is ready, and ends when its standard input is closed, in whatever way the tests end.
"""

from __future__ import annotations

import sys
from typing import Any, cast

TEMPLATE = """\
{%- if tools -%}
<|im_start|>system
{% if messages[0].role == "system" %}{{ messages[0].content }} {% endif -%}
You can call these functions:{% for tool in tools %} {{ tool.function | tojson }}{% endfor %}
Answer with {"name": ..., "arguments": {...}} to call one.<|im_end|>
{% elif messages[0].role == "system" -%}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- for message in messages if message.role != "system" -%}
<|im_start|>{{ "user" if message.role == "tool" else message.role }}
{% if message.role == "tool" %}Result: {% endif %}{{ message.content or "" }}
{%- for call in message.tool_calls or [] -%}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
"""Calls as plain JSON: the model's own template has no tools, and then the server drops them without a word."""


def main(model: str) -> None:
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

    untyped = cast(Any, xllamacpp)
    settings = untyped.CommonParams()
    settings.model.path = model
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.n_ctx = 2048
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.use_jinja = True
    settings.chat_template = TEMPLATE
    settings.ui = False
    settings.verbosity = 0
    settings.warmup = False
    server = untyped.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
