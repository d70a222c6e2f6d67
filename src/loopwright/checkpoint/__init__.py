"""Checkpoints: what a saver promises (`base`), what may be stored (`plain`), and savers: `memory`."""

__all__: list[str] = []
