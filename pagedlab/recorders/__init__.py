"""The pool of a real engine, as events of ours.

    pagedlab.recorders.vllm   runs inside vLLM and writes what its scheduler does with blocks
    load(path)                reads such a log; its events draw, replay and count like our own
    shipped()                 a run that was recorded once and comes with the package

A log is JSON lines (also gzipped), one object each; `step` counts calls of the engine's scheduler, -1
before the first, and `req` names the request:

    pool        num_blocks, block_size, null_block, prefix_caching, engine, version; the first line
    arrived     prompt_tokens                     queued
    touched     blocks, from_free                 cached blocks shared; those that nobody held
    evicted     blocks                            these lost their key, being handed out again
    allocated   blocks                            new blocks, in table order
    slots       status, have, hit, new, total, free   admission or growth succeeded: tokens computed before,
                                                  found in the cache, scheduled now, known in all
    refused     the same                          the engine could not get blocks
    cached      blocks                            these got a key
    preempted   lost                              tokens to recompute
    freed       blocks, to_pool                   tail first; those that nobody holds now
    step        scheduled, tables, computed, waiting, free, preempted   as the workers get them
    finished    tokens                            done
    cache_reset ok                                the whole prefix cache was dropped
    kv_event    type, hashes, tokens              what vLLM itself publishes; no block ids
"""

from pagedlab.recorders.engine_run import EngineRun, EngineRunError, load, shipped

__all__ = ["EngineRun", "EngineRunError", "load", "shipped"]
