"""What a chunk costs, in lockstep: one chunk in flight on each stream, so that nothing can be put together.

`passed`, `translated` and those like it count whole answers of 200 chunks, with what it takes to open
and to end them. `growth` counts chunks alone, while so many streams are open and nobody comes or goes.
`workers_2` is the CPU of all processes of a system of two workers. Where the machine has a third core they
have one each; else they share one, and what is seen is what it costs to be two, not what it gains.
"""

from dataclasses import replace

from bench.load import Bench, Figures, Meter, pace_of
from bench.process import BenchError
from bench.system import PASSED, System

STREAM_COUNTS = (10, 100, 1000, 5000)
CHUNKS = 200
ENDLESS = 1_000_000
"""Chunks, of a stream that is left before its end."""
MOST_TOKENS_PER_S = 2_000_000
"""More than any system relays: an answer that outgrows what was asked for is not what is measured."""
SPARE_FILES = 200


def lockstep(bench: Bench, system: System, way: str) -> Figures:
    if way not in system.routes:
        return {}
    size = bench.size
    options = ["--acks", bench.acks, "--streams", size.lockstep_streams, "--seconds", size.lockstep_s]
    with Meter(system) as meter:
        report = bench.load(system, *options, *pace_of(chunks=CHUNKS, lockstep=1), route=system.routes[way])
    return {
        "chunk_cpu_us": meter.cpu_s / report["texts"] * 1e6,
        "chunks_per_s": report["texts"] / report["elapsed_s"],
        "others": meter.others,
    }


def passed(bench: Bench, system: System) -> Figures:
    """The frames go out as they came."""
    return lockstep(bench, system, "passed")


def translated(bench: Bench, system: System) -> Figures:
    """openai to openai, with another id and another model: every frame is decoded and encoded."""
    return lockstep(bench, system, "translated")


def opentoken(bench: Bench, system: System) -> Figures:
    """The same provider in another dialect."""
    return lockstep(bench, system, "opentoken")


def anthropic(bench: Bench, system: System) -> Figures:
    return lockstep(bench, system, "anthropic")


def gemini(bench: Bench, system: System) -> Figures:
    return lockstep(bench, system, "gemini")


def messages_passed(bench: Bench, system: System) -> Figures:
    """Anthropic's wire to its own API: the frames go out as they came."""
    return lockstep(bench, system, "messages_passed")


def messages(bench: Bench, system: System) -> Figures:
    """OpenAI's wire to Anthropic's API."""
    return lockstep(bench, system, "messages")


def from_responses(bench: Bench, system: System) -> Figures:
    """OpenAI's Responses wire to chat completions."""
    return lockstep(bench, system, "from_responses")


def responses_passed(bench: Bench, system: System) -> Figures:
    """OpenAI's Responses wire to its own API: the frames go out as they came."""
    return lockstep(bench, system, "responses_passed")


def responses(bench: Bench, system: System) -> Figures:
    """The wire of chat completions to OpenAI's Responses API."""
    return lockstep(bench, system, "responses")


def converse(bench: Bench, system: System) -> Figures:
    """Bedrock's Converse, in binary frames, to chat completions."""
    return lockstep(bench, system, "converse")


def invoke_passed(bench: Bench, system: System) -> Figures:
    """Claude's events in Bedrock's binary frames to Anthropic's API: out of their frames, and else unchanged."""
    return lockstep(bench, system, "invoke_passed")


def invoke(bench: Bench, system: System) -> Figures:
    """The same to chat completions."""
    return lockstep(bench, system, "invoke")


def resumable(bench: Bench, system: System) -> Figures:
    """As `passed`, with streams that callers can come back to, so that all frames are kept in memory. `ratio`: to those
    of streams that are not kept, measured just before."""
    if "resumable" not in system.routes:
        return {}
    plain, kept = lockstep(bench, system, "passed"), lockstep(bench, system, "resumable")
    return {
        **kept,
        "ratio": kept["chunk_cpu_us"] / plain["chunk_cpu_us"],
        "others": max(plain["others"], kept["others"]),
    }


def tls(bench: Bench, system: System) -> Figures:
    """As `passed`, with TLS to the provider, whose certificate is checked."""
    if bench.tls is None or not system.has_tls:
        return {}
    with bench.fresh(system, "tls", bench.tls) as other:
        bench.warm(other, routes=PASSED.values())
        return lockstep(bench, other, "passed")


def workers_2(bench: Bench, system: System) -> Figures:
    """As `passed`, with two workers. Streamweir has no limits here: to count together, workers need a Valkey."""
    if not system.has_workers:
        return {}
    setting = replace(system.setting, workers=2, cores=bench.worker_cores)
    with bench.fresh(system, "two workers", setting) as other:
        bench.warm(other, routes=PASSED.values())
        return lockstep(bench, other, "passed")


def growth(bench: Bench, system: System) -> Figures:
    """What a chunk costs among few streams and among many."""
    figures: Figures = {}
    for count in STREAM_COUNTS:
        if 2 * count + SPARE_FILES > bench.files:
            bench.say(f"  growth: {count} streams need more open files than the {bench.files} that are allowed")
            continue
        # The first chunk waits until about all are open: else those that are would keep the others from it.
        ramp_ms = 200 + count * 3 // 5
        pace = pace_of(chunks=ENDLESS, first_us=ramp_ms * 1000, lockstep=1)
        limit = 4096 + int(MOST_TOKENS_PER_S * bench.size.growth_s / count)
        options = ["--acks", bench.acks, "--streams", count, "--ramp-ms", ramp_ms, "--max-tokens", limit]
        window = bench.in_window(system, "--window", bench.size.growth_s, *options, *pace)
        if window.report["least_texts"] == 0:
            raise BenchError(f"of {count} streams one got nothing for {bench.size.growth_s} s")
        figures[f"chunk_cpu_us_{count}"] = window.costs["chunk_cpu_us"]
        figures["others"] = max(window.costs["others"], figures.get("others", 0.0))
    few, many = figures.get("chunk_cpu_us_100"), figures.get("chunk_cpu_us_5000")
    if few and many:
        figures["ratio"] = many / few
    return figures
