"""What kind of file a media block holds that does not say so, which every provider wants to be told."""

from __future__ import annotations

from typing import Final

__all__ = ["media_type", "usual_type"]

_BEGINNINGS: Final = {
    "/9j/": "image/jpeg",
    "iVBOR": "image/png",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi": "application/pdf",
}
"""How files begin in base64. Sound in the same container as webp says `audio` by its block."""
_USUAL: Final = {"image": "image/jpeg", "audio": "audio/wav", "video": "video/mp4"}


def media_type(kind: str, base64: str) -> str:
    """By how the bytes begin, else what is usual for a block of this type."""
    beginning = (mime for start, mime in _BEGINNINGS.items() if base64.startswith(start))
    found = next(beginning, None)
    return found if found and (kind == "file" or found.startswith(kind)) else usual_type(kind)


def usual_type(kind: str) -> str:
    """What most blocks of this type hold; PDF for a file."""
    return _USUAL.get(kind, "application/pdf")
