"""The program that the embedded model runs in: `python -m streamweir.upstream.local_child`.

Started by `upstream.local`, which is its only user. It reads one line of orders from stdin (so
that the key stands on no command line), serves OpenAI's wire on a loopback port, says `ready` on
stdout, and waits. Its life is its stdin: at the end of that it ends at once, so it never outlives
whoever started it. A terminal's Ctrl-C or a service manager's SIGTERM, which reach every process
of the gateway, must not cut the answers that the gateway still wants to finish: it ignores them.
It must not know the gateway: nothing else of this package is imported, so that it starts fast.
"""

import os
import signal
import sys
from importlib import import_module
from typing import Any

import msgspec

ALIAS = "smollm2"
READY = b"ready\n"

SLOTS = 4
"""Answers at a time; further ones wait for a slot."""
SLOT_TOKENS = 4096
"""Prompt and answer together. A slot has its own: in a shared context, one that is full fails the answers of all."""
LONGEST_ANSWER = 1024
"""Tokens, where the caller names no limit: a model this small can go round in circles."""
MOST_CONNECTIONS = 128
_MOST_THREADS = 4
"""More do not help a model of this size, and a container may be allowed fewer cores than it sees."""
_CORES_LEFT = 1
"""Threads that wait for one that has lost its core spin: with all cores, it is three times slower on a busy machine."""
_READ_S, _WRITE_S = 60, 600
_ERRORS_ONLY = 1


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True):
    weights: str
    port: int
    api_key: str


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(5)  # the gateway goes first
    report = os.dup(1)
    os.dup2(2, 1)  # what the library prints is no report
    line = sys.stdin.buffer.readline()
    if not line:
        return
    orders = msgspec.json.decode(line, type=ChildRequest)
    try:
        engine = import_module("xllamacpp")
        server = engine.Server(_params(engine, orders))  # loads the model; serves for as long as it is referred to
    except (ImportError, RuntimeError) as reason:
        sys.exit(f"The embedded model cannot be served: {reason}")
    os.write(report, READY)
    sys.stdin.buffer.read()
    del server
    os._exit(0)


def _params(engine: Any, orders: ChildRequest) -> Any:
    params = engine.CommonParams()
    params.model.path = orders.weights
    params.model_alias = {ALIAS}
    params.offline = True
    params.warmup = False
    params.fit_params = False  # would load it twice, to see whether it fits
    params.n_gpu_layers = 0
    params.verbosity = _ERRORS_ONLY

    params.hostnames = ["127.0.0.1"]
    params.port = orders.port
    params.reuse_port = True  # the parent holds the port, so that it stays ours from one child to the next
    params.api_keys = [orders.api_key]
    params.ui = params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = False
    params.n_threads_http = MOST_CONNECTIONS
    params.timeout_read, params.timeout_write = _READ_S, _WRITE_S

    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * SLOT_TOKENS
    params.kv_unified = False
    # Half the memory (350 MB in all instead of 520) at the same speed, which needs flash attention.
    params.cache_type_k = params.cache_type_v = engine.ggml_type.GGML_TYPE_Q8_0
    params.flash_attn_type = engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_ram_mib = 0  # else it keeps up to 8 GiB of old prompts
    params.n_predict = LONGEST_ANSWER
    # Where a request says nothing: what its makers recommend, and a little against repeating itself.
    params.sampling.temp, params.sampling.top_p, params.sampling.penalty_repeat = 0.2, 0.9, 1.1
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = max(1, min(_MOST_THREADS, _cores() - _CORES_LEFT))
        threads.poll = 0  # never spin
    return params


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    main()
