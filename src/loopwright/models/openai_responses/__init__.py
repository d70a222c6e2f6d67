"""OpenAI Responses, and every provider that speaks it.

`items` is the table between output items and content blocks, in both directions; `request` and `parts` are what goes
out, `body` what the settings add to it; `response` is a whole answer that comes in, `stream` an answer that comes in
pieces. All are plain functions on plain data: no sockets. The class that users make is `ChatOpenAI`, which speaks
Chat Completions too.
"""

__all__: list[str] = []
