"""Who is measured (`peers.toml`), and one virtual environment for each under `.envs`, made when it is first needed.

Environments are filled one after the other and at low priority, because others may be using the machine.
A stamp holds what was asked for; changing `peers.toml` or a file of pins makes the environment anew.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["HERE", "PEERS", "Peer", "ensure", "install", "python_of"]

HERE = Path(__file__).resolve().parent
FOLDER = HERE / ".envs"


class Peer(NamedTuple):
    environment: tuple[str, ...] = ()
    imports: str = ""
    provider_imports: str = ""
    packages: tuple[str, ...] = ()
    provider_packages: tuple[str, ...] = ()
    model_imports: str = ""
    providers: tuple[tuple[str, str], ...] = ()
    of: str = ""
    scenarios: tuple[str, ...] = ()


def _read() -> dict[str, Peer]:
    with (HERE / "peers.toml").open("rb") as file:
        tables = tomllib.load(file)
    return {name: Peer(**{key: _frozen(value) for key, value in table.items()}) for name, table in tables.items()}


def _frozen(value: str | list[str] | dict[str, str]) -> str | tuple[Any, ...]:
    if isinstance(value, str):
        return value
    return tuple(value.items() if isinstance(value, dict) else value)


PEERS = _read()


def python_of(name: str) -> str:
    """The interpreter in which an adapter runs."""
    return str(FOLDER / (PEERS[name].of or name) / "bin" / "python")


def install(folder: Path, packages: tuple[str, ...]) -> None:
    """A fresh environment with these packages. Paths among them are seen from this folder."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = ["nice", "-n", "10", folder / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True, cwd=HERE)


def _wanted(peer: Peer) -> str:
    files = [argument for argument in peer.environment if argument.endswith(".txt")]
    files += ["../pyproject.toml"] if ".." in peer.environment else []
    return "\n".join([sys.version, *peer.environment, *((HERE / file).read_text() for file in files)])


def ensure(names: list[str]) -> None:
    """Make the environments of these peers, unless they are there as asked for."""
    for name in dict.fromkeys(PEERS[name].of or name for name in names):
        folder, peer = FOLDER / name, PEERS[name]
        stamp = folder / ".made"
        if stamp.exists() and stamp.read_text() == _wanted(peer):
            continue
        print(f"environment: {name}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        install(folder, peer.environment)
        stamp.write_text(_wanted(peer))
