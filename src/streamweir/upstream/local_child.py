"""The program that the embedded model runs in: `python -m streamweir.upstream.local_child`.

Only `upstream.local` starts it. It reads one line with its parameters from stdin (so that the key is not on a command
line), serves OpenAI's API on a loopback port, writes `ready` to stdout, and waits. It ends at the end of its stdin, so
it never outlives its parent. It ignores SIGINT and SIGTERM, which a terminal or service manager sends to every process
of the gateway, because the gateway may still finish running answers. It imports nothing else of this package, so that
it starts fast.
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
"""Number of concurrent answers; further requests wait for a slot."""
SLOT_TOKENS = 4096
"""Context size per slot, for prompt and answer. In a shared context, one full slot would fail all answers."""
MAX_ANSWER_TOKENS = 1024
"""The limit if the caller sets none: a model this small may repeat itself endlessly."""
MAX_CONNECTIONS = 128
_MAX_THREADS = 4
"""More do not help a model of this size, and a container may have fewer cores than it reports."""
_FREE_CORES = 1
"""Threads spin while they wait for each other: with all cores in use, a busy machine is three times slower."""
_READ_S, _WRITE_S = 60, 600
_ERRORS_ONLY = 1


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True):
    weights: str
    port: int
    api_key: str


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(5)  # the gateway has priority
    report = os.dup(1)
    os.dup2(2, 1)  # output of the library goes to stderr
    line = sys.stdin.buffer.readline()
    if not line:
        return
    request = msgspec.json.decode(line, type=ChildRequest)
    try:
        engine = import_module("xllamacpp")
        server = engine.Server(_params(engine, request))  # loads the model; serves while it is referenced
    except (ImportError, RuntimeError) as reason:
        sys.exit(f"The embedded model cannot be served: {reason}")
    os.write(report, READY)
    sys.stdin.buffer.read()
    del server
    os._exit(0)


def _params(engine: Any, request: ChildRequest) -> Any:
    params = engine.CommonParams()
    params.model.path = request.weights
    params.model_alias = {ALIAS}
    params.offline = True
    params.warmup = False
    params.fit_params = False  # would load it twice
    params.n_gpu_layers = 0
    params.verbosity = _ERRORS_ONLY

    params.hostnames = ["127.0.0.1"]
    params.port = request.port
    params.reuse_port = True  # the parent has reserved the port
    params.api_keys = [request.api_key]
    params.ui = params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = False
    params.n_threads_http = MAX_CONNECTIONS
    params.timeout_read, params.timeout_write = _READ_S, _WRITE_S

    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * SLOT_TOKENS
    params.kv_unified = False
    # Less memory (350 MB instead of 520) at the same speed; needs flash attention.
    params.cache_type_k = params.cache_type_v = engine.ggml_type.GGML_TYPE_Q8_0
    params.flash_attn_type = engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_ram_mib = 0  # otherwise it caches up to 8 GiB of prompts
    params.n_predict = MAX_ANSWER_TOKENS
    # Defaults: the recommended values of the model, and a small penalty for repetition.
    params.sampling.temp, params.sampling.top_p, params.sampling.penalty_repeat = 0.2, 0.9, 1.1
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = max(1, min(_MAX_THREADS, _cores() - _FREE_CORES))
        threads.poll = 0  # never spin
    return params


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    main()
