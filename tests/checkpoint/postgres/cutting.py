"""A server seen through a line that breaks where a test says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit, urlunsplit

__all__ = ["Cutting"]


class Cutting:
    """Stands between a saver and its server. `cut` says of each message to the server whether the line breaks there.

    With `late` the server gets that message and does what it says, and its answer is lost; otherwise it is the message
    that is lost. Either way both ends find the line closed, and the next connection is whole.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._server: Final = (parts.hostname, parts.port or 5432)
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self.url: Final = urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{self._listener.getsockname()[1]}"))
        self.cut: Callable[[bytes], bool] = lambda _message: False
        self.late = False
        self.cuts = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                lost = threading.Event()
                for pump in (self._ask, self._answer):
                    threading.Thread(target=pump, args=(client, server, lost), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while message := client.recv(1 << 20):
                if not self.cut(message):
                    server.sendall(message)
                    continue
                self.cuts += 1
                if self.late:
                    lost.set()
                    server.sendall(message)
                    return  # the other pump closes, when the answer is here
                break
        _hang_up(server, client)

    def _answer(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(1 << 20):
                if lost.is_set():
                    break
                client.sendall(answer)
        _hang_up(client, server)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
