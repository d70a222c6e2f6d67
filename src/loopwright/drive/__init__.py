"""Two ways to run one core: `blocking` without an event loop, `aio` inside the caller's task."""

__all__: list[str] = []
