"""A process that imports a peer, makes an agent with one typed tool and runs one round: python fresh.py ADAPTER.

Prints its CPU seconds and its peak memory in kilobytes; whoever started it knows the wall time.
"""

import importlib
import sys
import time

import tools
from fake import USER_TEXT, Script

peer = importlib.import_module(f"adapters.{sys.argv[1]}")
script = Script(rounds=1)
answer = peer.run(peer.build(script, peer.raw_tools([tools.lookup])), USER_TEXT)
if answer != script.answer or tools.executed != 1:
    sys.exit(f"{sys.argv[1]} did not do the scripted work: {answer!r}")

cpu = time.process_time()
with open("/proc/self/status") as status:  # noqa: PTH123 - pathlib would be measured too
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
print()  # a peer may have left an unfinished line
print(cpu, peak)
