"""The serving model as one plain loop: counts of blocks, no manager, nothing skipped.

An independent reading of `tests/cases/serving_model.md`, chunks included. Slow and short on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class _Request:
    id: int
    prompt: int
    output: int
    arrival: int
    produced: int = 0
    stored: int = 0


def serve(requests, block_size, num_blocks, *, kept_free=0, max_seqs=None, budget=None):
    """`requests` are (prompt, output, arrival step). The rows of all busy steps, and the finish steps."""
    blocks = lambda tokens: -(-tokens // block_size)  # noqa: E731
    to_come = sorted((_Request(i, *row) for i, row in enumerate(requests)), key=lambda r: r.arrival)
    budget = budget or 10**9
    max_seqs = min(max_seqs or 10**9, budget)
    waiting, running, rows = [], [], []
    finish = [-1] * len(requests)
    step = 0
    while to_come or waiting or running:
        if not waiting and not running:
            step = max(step, to_come[0].arrival)
        while to_come and to_come[0].arrival <= step:
            request = to_come.pop(0)
            if blocks(request.prompt + request.output - 1) + kept_free > num_blocks:
                finish[request.id] = -2
            else:
                waiting.append(request)
        left, preempted, computed = budget, 0, 0
        for request in list(running):
            while request in running:
                tokens = min(request.prompt + request.produced - request.stored, left)
                held = sum(blocks(other.stored) for other in running)
                if held + blocks(request.stored + tokens) - blocks(request.stored) <= num_blocks:
                    request.stored += tokens
                    left -= tokens
                    computed += tokens
                    break
                newest = running.pop()
                newest.stored = 0
                waiting.insert(0, newest)
                preempted += 1
        while not preempted and waiting and len(running) < max_seqs and left:
            request = waiting[0]
            known = request.prompt + request.produced
            free = num_blocks - sum(blocks(other.stored) for other in running)
            if free - blocks(known) < kept_free:
                break
            running.append(waiting.pop(0))
            request.stored = min(known, left)
            left -= request.stored
            computed += request.stored
        if not running and not waiting:
            continue
        held = sum(blocks(request.stored) for request in running) * block_size
        stored = sum(request.stored for request in running)
        rows.append((len(running), len(waiting), held, stored, preempted, computed))
        for request in list(running):
            if request.stored == request.prompt + request.produced:
                request.produced += 1
                if request.produced == request.output:
                    finish[request.id] = step
                    running.remove(request)
        step += 1
    return rows, finish
