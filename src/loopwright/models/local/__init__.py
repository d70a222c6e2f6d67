"""Models in this process: `ChatLocal`, and what watches and frees the engines behind it."""

from __future__ import annotations

from loopwright.models.local.engine import Loading, release_engines, watch_loading
from loopwright.models.local.model import ChatLocal
from loopwright.models.local.shots import Shot

__all__ = ["ChatLocal", "Loading", "Shot", "release_engines", "watch_loading"]
