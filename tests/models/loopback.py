"""A real HTTP server on this machine that answers as a script says, for tests of the wire.

Each request takes the next `Answer`; the last one is repeated. What came in is kept in `requests`, and every connection
that was opened is counted, so that a test sees reuse. Nothing sleeps: an answer that waits, waits for an event.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Answer", "Loopback", "Request", "chat_answer", "chat_event", "chat_stream"]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What one request gets. `pieces` are sent chunked, one after the other; an event among them is waited for."""

    status: int = 200
    body: bytes | str | dict[str, Any] | list[Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterable[Any] | None = None
    cut: bool = False
    """Hang up after what was sent, without the end that HTTP asks for."""
    silent: threading.Event | None = None
    """Wait for this before the first byte."""
    on_hangup: threading.Event | None = None
    """Set when the client hangs up before the pieces are through."""


class Loopback:
    """`with Loopback(Answer(...)) as server: ... server.url`."""

    def __init__(self, *answers: Answer | Callable[[Request], Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.connections = 0
        self._taken = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *exc: object) -> None:
        # A listener that is only closed goes on waiting in accept(): it has to be woken.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the client has hung up already
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True)
            with self._lock:
                self._open.add(connection)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection.makefile("rb") as incoming:
                while (request := _read(incoming, number)) is not None:
                    if not self._reply(connection, request):
                        break
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _reply(self, connection: socket.socket, request: Request) -> bool:
        with self._lock:
            self.requests.append(request)
            answer = self.answers[min(self._taken, len(self.answers) - 1)]
            self._taken += 1
        if not isinstance(answer, Answer):
            answer = answer(request)
        if answer.silent is not None:
            answer.silent.wait(20)
        if answer.status == 0:  # no answer at all
            return False
        body = answer.body
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        headers = {"content-type": "application/json", **answer.headers}
        if answer.pieces is None:
            length = len(body) + (1 if answer.cut else 0)
            connection.sendall(_head(answer.status, {**headers, "content-length": str(length)}) + body)
        else:
            connection.sendall(_head(answer.status, {**headers, "transfer-encoding": "chunked"}))
            try:
                self._send_pieces(connection, answer)
            except OSError:
                if answer.on_hangup is not None:
                    answer.on_hangup.set()
                raise
        return not answer.cut

    def _send_pieces(self, connection: socket.socket, answer: Answer) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in answer.pieces or ():
            if isinstance(piece, threading.Event):
                piece.wait(20)
            elif piece == "until hangup":
                assert connection.recv(1) == b""
                raise ConnectionError
            else:
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        if not answer.cut:
            connection.sendall(b"0\r\n\r\n")


def _read(incoming: Any, connection: int) -> Request | None:
    line = incoming.readline()
    if not line:
        return None
    method, path, _ = line.decode().split()
    headers: dict[str, str] = {}
    while (line := incoming.readline().strip()) != b"":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = incoming.read(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body, connection)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items() if value)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


# -- answers as OpenAI gives them -----------------------------------------------------------------------------------


def chat_answer(text: str | None = "hi", *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def chat_event(finish: str | None = None, usage: Any = None, **delta: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta or finish else []
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m-1",
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def chat_stream(*words: str) -> list[bytes]:
    usage = {"prompt_tokens": 3, "completion_tokens": len(words), "total_tokens": 3 + len(words)}
    return [
        chat_event(role="assistant", content=""),
        *(chat_event(content=word) for word in words),
        chat_event(finish="stop"),
        chat_event(usage=usage),
        b"data: [DONE]\n\n",
    ]
