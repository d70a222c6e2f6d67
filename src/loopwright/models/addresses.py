"""Whose address it is that a model asks."""

from __future__ import annotations

__all__ = ["host_of", "other_host"]


def host_of(url: str) -> str:
    """Host and port of an address, in lower case."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()


def other_host(url: str, own_url: str) -> str | None:
    """The server at an address, where it is not the provider's own: what it asks for an answer is no list price."""
    host, own = host_of(url), host_of(own_url)
    return host if own and host != own else None
