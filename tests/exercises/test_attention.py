"""The exercises `paged-decode`, `online-softmax` and `merge-splits`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from trying import assert_passes, assert_recognised

from pagedlab import exercises
from pagedlab_kernels import contiguous_attention, paged_attention

INF = math.inf


# -- paged-decode


def python_loops(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """Numbers one by one."""
    seqs, heads, dim = query.shape
    size, kv_heads = key_cache.shape[1], key_cache.shape[2]
    out = torch.zeros_like(query)
    for s in range(seqs):
        for h in range(heads):
            kv, scores, rows = h // (heads // kv_heads), [], []
            for position in range(int(seq_lens[s])):
                block = int(block_tables[s][position // size])
                key = key_cache[block, position % size, kv].tolist()
                scores.append(scale * sum(a * b for a, b in zip(query[s, h].tolist(), key, strict=True)))
                rows.append(value_cache[block, position % size, kv].tolist())
            weights = [math.exp(score - max(scores)) for score in scores]
            for d in range(dim):
                if rows:
                    total = sum(w * row[d] for w, row in zip(weights, rows, strict=True))
                    out[s, h, d] = total / sum(weights)
    return out


def padded_and_masked(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """All sequences at once, padded to the longest."""
    size, kv_heads = key_cache.shape[1], key_cache.shape[2]
    position = torch.arange(max(1, int(seq_lens.max())))
    inside = position < seq_lens[:, None]
    column = (position // size).clamp(max=block_tables.shape[1] - 1)
    block = torch.where(inside, block_tables[:, column].long(), 0)
    key = torch.where(inside[..., None, None], key_cache[block, position % size].float(), 0)
    value = torch.where(inside[..., None, None], value_cache[block, position % size].float(), 0)
    group = query.shape[1] // kv_heads
    key, value = (x.repeat_interleave(group, 2) for x in (key, value))
    score = torch.einsum("shd,snhd->shn", query.float(), key) * scale
    score = score.masked_fill(~inside[:, None], -INF)
    weight = torch.nan_to_num(score.softmax(-1))
    return torch.einsum("shn,snhd->shd", weight, value).to(query.dtype)


def running_softmax(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """Block by block."""
    size, kv_heads, (seqs, heads, _) = key_cache.shape[1], key_cache.shape[2], query.shape
    kv = torch.arange(heads).div(heads // kv_heads, rounding_mode="floor")
    out = query.new_zeros(query.shape)
    for s in range(seqs):
        length, top, total, acc = int(seq_lens[s]), torch.tensor(-INF), 0, 0
        for start in range(0, length, size):
            block = block_tables[s, start // size]
            count = min(size, length - start)
            key, value = (cache[block, :count][:, kv].float() for cache in (key_cache, value_cache))
            score = torch.einsum("hd,nhd->nh", query[s].float(), key) * scale
            new = torch.maximum(top, score.max(0).values)
            weight, old = (score - new).exp(), (top - new).exp()
            total = total * old + weight.sum(0)
            acc = acc * old[..., None] + torch.einsum("nh,nhd->hd", weight, value)
            top = new
        if length:
            out[s] = (acc / total[:, None]).to(out.dtype)
    return out


def scaled_dot_product(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """torch's own, a sequence at a time."""
    size, heads = key_cache.shape[1], query.shape[1]
    rows = []
    for q, table, length in zip(query, block_tables, seq_lens.tolist(), strict=True):
        blocks = table[: math.ceil(length / size)].long()
        key, value = (
            cache[blocks].flatten(0, 1)[:length].transpose(0, 1) for cache in (key_cache, value_cache)
        )
        if not length:
            rows.append(torch.zeros_like(q))
            continue
        key, value = (x.repeat_interleave(heads // x.shape[0], 0) for x in (key, value))
        answer = torch.nn.functional.scaled_dot_product_attention(q[:, None], key, value, scale=scale)
        rows.append(answer[:, 0])
    return torch.stack(rows)


def in_numpy(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """numpy in double precision, and back."""
    q, k, v = (x.double().numpy() for x in (query, key_cache, value_cache))
    out = np.zeros(q.shape)
    for s, length in enumerate(seq_lens.numpy()):
        blocks = block_tables[s].numpy()[: -(-length // k.shape[1])]
        key, value = (np.concatenate([x[b] for b in blocks] or [x[0][:0]])[:length] for x in (k, v))
        for h in range(q.shape[1]) if length else ():
            kv = h * k.shape[2] // q.shape[1]
            score = key[:, kv] @ q[s, h] * scale
            weight = np.exp(score - score.max())
            out[s, h] = weight @ value[:, kv] / weight.sum()
    return torch.from_numpy(out).to(query.dtype)


def library(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    return paged_attention(
        query, key_cache, value_cache, block_tables, seq_lens, scale=scale, backend="reference"
    )


def compiled(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """Gathers to rows, then the library's twin."""
    size, longest = key_cache.shape[1], int(seq_lens.max())
    rows = torch.zeros(2, len(query), longest, *key_cache.shape[2:], dtype=query.dtype)
    for s, length in enumerate(seq_lens.tolist()):
        blocks = block_tables[s, : -(-length // size)].long()
        for row, cache in zip(rows, (key_cache, value_cache), strict=True):
            row[s, :length] = cache[blocks].flatten(0, 1)[:length]
    return contiguous_attention(query, *rows, seq_lens, scale=scale, backend="reference")


DECODE = {
    "loops": python_loops,
    "padded": padded_and_masked,
    "running": running_softmax,
    "sdpa": scaled_dot_product,
    "numpy": in_numpy,
    "library": library,
    "rows": compiled,
}


def gathered(
    block_of=lambda tables, s, place: tables[s, place],
    kv_of=lambda heads, kv_heads: torch.arange(heads) // (heads // kv_heads),
    extra=0,
    factor=lambda scale, dim: scale,
    dtype=None,
    empty=True,
    whole=False,
):
    """A decode in which one choice or another may be wrong."""

    def solution(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
        size, heads = key_cache.shape[1], query.shape[1]
        rows = []
        for s, length in enumerate(seq_lens.tolist()):
            if empty and not length:
                rows.append(torch.zeros_like(query[s]).float())
                continue
            stop = -(-length // size) * size if whole else length + extra * (length % size > 0)
            position = torch.arange(stop)
            block = block_of(block_tables, s, position // size)
            kv = kv_of(heads, key_cache.shape[2])
            key, value = (cache[block, position % size][:, kv].float() for cache in (key_cache, value_cache))
            score = (query[s].float() * key).sum(-1) * factor(scale, query.shape[2])
            rows.append((score.softmax(0)[..., None] * value).sum(0) if stop else query[s] * torch.nan)
        return torch.stack(rows).to(dtype or query.dtype)

    return solution


def masked_late(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """Masks the score and multiplies it with whatever lies in V."""
    size, heads = key_cache.shape[1], query.shape[1]
    out = torch.zeros_like(query)
    for s, length in enumerate(seq_lens.tolist()):
        if length:
            position = torch.arange(-(-length // size) * size)
            block = block_tables[s, position // size]
            kv = torch.arange(heads) // (heads // key_cache.shape[2])
            key, value = (cache[block, position % size][:, kv].float() for cache in (key_cache, value_cache))
            score = (query[s].float() * key).sum(-1) * scale
            score = score.masked_fill((position >= length)[:, None], -INF)
            out[s] = (score.softmax(0)[..., None] * value).sum(0)
    return out


def all_columns(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """Follows every entry, and cuts afterwards."""
    keys, values = (cache[block_tables.long()].flatten(1, 2) for cache in (key_cache, value_cache))
    width = int(seq_lens.max())
    rows = keys[:, :width].contiguous(), values[:, :width].contiguous()
    return contiguous_attention(query, *rows, seq_lens, scale=scale, backend="reference")


def unshifted(query, key_cache, value_cache, block_tables, seq_lens, *, scale):
    """A maximum that begins at 0."""
    out = running_softmax(query, key_cache, value_cache, block_tables, seq_lens, scale=scale)
    key = key_cache[block_tables[:, 0].long(), 0, 0].float()
    low = (query[:, 0].float() * key).sum(-1) * scale < -150
    return torch.where(low[:, None, None], torch.nan, out)


DECODE_WRONG = {
    "no table": (gathered(block_of=lambda tables, s, place: s * tables.shape[1] + place), "nobody reads"),
    "first table": (gathered(block_of=lambda tables, s, place: tables[0, place]), "a row of its own"),
    "heads in turns": (gathered(kv_of=lambda heads, kv: torch.arange(heads) % kv), "wrong KV head"),
    "one too many": (gathered(extra=1), "One token too many"),
    "whole blocks": (gathered(whole=True), "a sequence ends at its length"),
    "no scale": (gathered(factor=lambda scale, dim: 1.0), "not multiplied by the scale"),
    "own scale": (gathered(factor=lambda scale, dim: dim**-0.5), "scale that is given"),
    "scale twice": (gathered(factor=lambda scale, dim: scale * scale), "used twice"),
    "single precision": (gathered(dtype=torch.float32), "query's dtype"),
    "nothing is NaN": (gathered(empty=False), "no tokens"),
    "masked late": (masked_late, "0 x NaN is NaN"),
    "all columns": (all_columns, "Entries past the end"),
    "maximum from 0": (unshifted, "begins at 0"),
}


# -- online-softmax


def online_torch(score_blocks, value_blocks):
    top, total, acc = torch.tensor(-INF), torch.tensor(0.0), torch.zeros(value_blocks[0].shape[1])
    for score, value in zip(score_blocks, value_blocks, strict=True):
        if score.numel() and score.max() > -INF:
            new = torch.maximum(top, score.max())
            weight = torch.exp(score - new)
            acc = acc * torch.exp(top - new) + weight @ value
            total = total * torch.exp(top - new) + weight.sum()
            top = new
    return acc / total if total > 0 else acc


def online_python(score_blocks, value_blocks):
    top, total, acc = -INF, 0.0, [0.0] * 3
    for i in range(len(score_blocks)):
        for j in range(len(score_blocks[i])):
            score = float(score_blocks[i][j])
            if score == -INF:
                continue
            if score > top:
                shrink = math.exp(top - score)
                total, acc, top = total * shrink, [a * shrink for a in acc], score
            weight = math.exp(score - top)
            total += weight
            acc = [a + weight * float(v) for a, v in zip(acc, value_blocks[i][j], strict=True)]
    return [a / total for a in acc] if total else acc


def online_numpy(score_blocks, value_blocks):
    state = (-INF, 0.0, np.zeros(np.shape(value_blocks[0])[-1]))
    for pair in zip(score_blocks, value_blocks, strict=True):
        scores, values = map(np.asarray, pair)
        if len(scores) == 0 or scores.max() == -INF:
            continue
        top = max(state[0], scores.max())
        w, old = np.exp(scores - top), np.exp(state[0] - top)
        state = top, state[1] * old + w.sum(), state[2] * old + (w[:, None] * values).sum(0)
    return state[2] / (state[1] or 1.0)


def online_lists(score_blocks, value_blocks):
    """Only for lists: an empty list is false."""
    merged = None
    for scores, values in zip(score_blocks, value_blocks, strict=True):
        if not scores or max(scores) == -INF:
            continue
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        columns = [
            sum(w * v for w, v in zip(weights, column, strict=True)) for column in zip(*values, strict=True)
        ]
        part = (top, sum(weights), columns)
        if merged is None:
            merged = part
        else:
            new = max(merged[0], top)
            a, b = math.exp(merged[0] - new), math.exp(top - new)
            added = [a * x + b * y for x, y in zip(merged[2], part[2], strict=True)]
            merged = (new, a * merged[1] + b * part[1], added)
    return [x / merged[1] for x in merged[2]] if merged else [0, 0, 0]


def joined_torch(score_blocks, value_blocks):
    scores, values = torch.cat(list(score_blocks)), torch.cat(list(value_blocks))
    return scores.softmax(0) @ values if len(scores) else torch.zeros(values.shape[1])


def joined_numpy(score_blocks, value_blocks):
    scores, values = np.concatenate(score_blocks), np.concatenate(value_blocks)
    weights = np.exp(scores - scores.max(initial=-1e30))
    return weights @ values / max(weights.sum(), 1e-30)


ONLINE = {
    "torch": online_torch,
    "python": online_python,
    "numpy": online_numpy,
    "lists": online_lists,
    "joined, torch": joined_torch,
    "joined, numpy": joined_numpy,
}


def online(acc=True, total=True, flip=False, start=-INF, running=True, guard=True, divide=True):
    def solution(score_blocks, value_blocks):
        top, s, a = torch.tensor(start), torch.tensor(0.0), torch.zeros(3, dtype=torch.float64)
        for score, value in zip(score_blocks, value_blocks, strict=True):
            block = score.max() if score.numel() else torch.tensor(-INF)
            new = torch.maximum(top, block) if running else block
            if guard and new == -INF:
                continue
            old = torch.exp(new - top if flip and top > -INF else top - new)
            weight = torch.exp(score - new)
            a = a * (old if acc else 1) + weight.double() @ value
            s = s * (old if total else 1) + weight.sum()
            top = new
        return a / s if divide and (s > 0 or not guard) else a

    return solution


def each_alone(score_blocks, value_blocks):
    pairs = zip(score_blocks, value_blocks, strict=True)
    return [(len(s), online_torch([s], [v])) for s, v in pairs if len(s)]


ONLINE_WRONG = {
    "values do not shrink": (online(acc=False), "accumulated values must shrink"),
    "sum does not shrink": (online(total=False), "accumulated sum must shrink"),
    "nothing shrinks": (online(acc=False, total=False), "relative to different maxima"),
    "grows": (online(flip=True), "not by exp(new - old)"),
    "from 0": (online(start=0.0), "begins at -inf"),
    "each block alone": (online(acc=False, total=False, running=False), "relative to different maxima"),
    "cut off": (
        lambda s, v: (
            sum((torch.exp(a.clip(max=50)) @ b for a, b in zip(s, v, strict=True)), torch.zeros(3))
            / (sum(torch.exp(a.clip(max=50)).sum() for a in s) or 1)
        ),
        "cut off",
    ),
    "block's maximum": (online(running=False), "of the block at hand"),
    "no guard": (online(guard=False), "-inf - -inf"),
    "no division": (online(divide=False), "divide by the sum"),
    "no maximum": (
        lambda s, v: (
            sum((torch.exp(a) @ b for a, b in zip(s, v, strict=True)), torch.zeros(3))
            / (sum(torch.exp(a).sum() for a in s) or 1)
        ),
        "infinite",
    ),
    "mean": (
        lambda s, v: (
            sum((part for _, part in each_alone(s, v)), torch.zeros(3)) / max(1, len(each_alone(s, v)))
        ),
        "do not weigh alike",
    ),
    "by length": (
        lambda s, v: (
            sum((n * part for n, part in each_alone(s, v)), torch.zeros(3)) / max(1, sum(map(len, s)))
        ),
        "not its number of tokens",
    ),
    "sum": (lambda s, v: sum((part for _, part in each_alone(s, v)), torch.zeros(3)), "add up to 1"),
}


# -- merge-splits


def merge_torch(outputs, lses):
    lse = torch.logsumexp(lses, 0)
    if lse == -INF:
        return torch.zeros(outputs.shape[1]), lse
    return torch.nan_to_num(outputs).mul(torch.exp(lses - lse)[:, None]).sum(0), lse


def merge_numpy(outputs, lses):
    lse = np.logaddexp.reduce(np.asarray(lses))
    keep = np.asarray(lses) > -INF
    share = np.exp(np.asarray(lses)[keep] - lse)
    return share @ np.asarray(outputs)[keep], lse


def merge_pairs(outputs, lses):
    """Two at a time."""
    output, lse = [0.0] * len(outputs[0]), -INF
    for row, other in zip(outputs, map(float, lses), strict=True):
        if other == -INF:
            continue
        new = max(lse, other) + math.log1p(math.exp(-abs(lse - other))) if lse > -INF else other
        a, b = math.exp(lse - new), math.exp(other - new)
        output, lse = [a * x + b * float(y) for x, y in zip(output, row, strict=True)], new
    return output, lse


def merge_python(outputs, lses):
    alive = [(lse, row) for lse, row in zip(lses, outputs, strict=True) if lse != -INF]
    if not alive:
        return [0] * len(outputs[0]), -INF
    top = max(lse for lse, _ in alive)
    weights = [math.exp(lse - top) for lse, _ in alive]
    columns = zip(*(row for _, row in alive), strict=True)
    output = [sum(w * x for w, x in zip(weights, column, strict=True)) / sum(weights) for column in columns]
    return output, top + math.log(sum(weights))


def merge_softmax(outputs, lses):
    share = torch.where(lses > -INF, lses.softmax(0), 0.0)
    return torch.einsum("s,sd->d", share, outputs.nan_to_num()), lses.logsumexp(0)


MERGE = {
    "torch": merge_torch,
    "numpy": merge_numpy,
    "pairs": merge_pairs,
    "python": merge_python,
    "softmax": merge_softmax,
}


def merge(weigh=lambda logs: torch.exp(logs - logs.max()), total=None):
    def solution(outputs, lses):
        live = lses > -INF
        if not live.any():
            return torch.zeros(3), -INF
        weights = weigh(lses[live])
        lse = total(lses[live]) if total else lses.logsumexp(0)
        return weights @ outputs[live] / weights.sum(), lse

    return solution


MERGE_WRONG = {
    "mean": (merge(torch.ones_like), "do not weigh alike"),
    "mean and largest": (merge(torch.ones_like, torch.max), "do not weigh alike"),
    "no lse": (lambda o, e: merge_torch(o, e)[0], "two things"),
    "lse as weight": (merge(lambda logs: logs), "not lse itself"),
    "overflow": (
        lambda o, e: (
            (e.exp()[e > -INF] @ o[e > -INF]) / e.exp().sum(),
            e.exp().sum().log(),
        ),
        "infinite",
    ),
    "NaN spreads": (
        lambda o, e: merge_torch(o, e) if e.max() == -INF else (e.softmax(0) @ o, e.logsumexp(0)),
        "leave its output out",
    ),
    "all empty": (
        lambda o, e: (
            (e - e.max()).exp() @ o.nan_to_num() / (e - e.max()).exp().sum(),
            e.max() + (e - e.max()).exp().sum().log(),
        ),
        "zeros and -inf",
    ),
    "counted": (lambda o, e: (o.nan_to_num().mean(0), e.logsumexp(0)), "average over"),
    "0 for empty": (lambda o, e: merge_torch(o, e.nan_to_num(neginf=0.0)), "gives it weight 1"),
    "powers of two": (merge(lambda logs: torch.exp2(logs - logs.max())), "not 2 ** lse"),
    "largest": (merge(total=torch.max), "not the largest alone"),
    "sum": (merge(total=torch.sum), "do not add up"),
    "mean lse": (merge(total=torch.mean), "no mean"),
    "relative": (merge(total=lambda logs: (logs - logs.max()).exp().sum().log()), "added back"),
}

RIGHT = {"paged-decode": DECODE, "online-softmax": ONLINE, "merge-splits": MERGE}
WRONG = {"paged-decode": DECODE_WRONG, "online-softmax": ONLINE_WRONG, "merge-splits": MERGE_WRONG}


@pytest.mark.parametrize("name, style", [(name, style) for name, styles in RIGHT.items() for style in styles])
def test_a_right_answer_of_any_style_passes(name, style):
    assert_passes(name, RIGHT[name][style])


@pytest.mark.parametrize(
    "name, mistake", [(name, each) for name, mistakes in WRONG.items() for each in mistakes]
)
def test_a_known_mistake_is_named_by_its_output(name, mistake):
    assert_recognised(name, *WRONG[name][mistake])


def test_blocks_and_their_values_get_smaller_together():
    report = exercises.check("online-softmax", ONLINE_WRONG["values do not shrink"][0], progress=None)
    assert report.smallest.picture.count("block") == 2 and report.smallest.tried.count(",") <= 8
    report = exercises.check("merge-splits", MERGE_WRONG["overflow"][0], progress=None)
    assert report.smallest.tried.startswith("outputs=[[0.0, 0.0, 0.0]], lses=[")


@pytest.mark.parametrize("style", ONLINE)
def test_joining_the_blocks_passes_with_a_remark(style):
    report = exercises.check("online-softmax", ONLINE[style], progress=None)
    assert ("all scores were read before the first value" in str(report)) == style.startswith("joined")


TRITON = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from pagedlab import exercises

@triton.jit
def kernel(q, k, v, table, lengths, out, scale, width, size, heads, kv_heads, k_block, k_slot, k_head,
           v_block, v_slot, v_head, DIM: tl.constexpr, TILE: tl.constexpr):
    seq, head, dim = tl.program_id(0), tl.program_id(1), tl.arange(0, DIM)
    kv, length = head // (heads // kv_heads), tl.load(lengths + seq)
    query = tl.load(q + (seq * heads + head) * DIM + dim).to(tl.float32)
    top, total, acc = -float("inf"), 0.0, tl.zeros([DIM], tl.float32)
    for start in range(0, length, TILE):
        at = start + tl.arange(0, TILE)
        inside = at < length
        block = tl.load(table + seq * width + at // size, mask=inside, other=0)
        krow = block * k_block + at % size * k_slot + kv * k_head
        vrow = block * v_block + at % size * v_slot + kv * v_head
        key = tl.load(k + krow[:, None] + dim[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        value = tl.load(v + vrow[:, None] + dim[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        score = tl.where(inside, tl.sum(query[None, :] * key, 1) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(score, 0))
        weight, shrink = tl.exp(score - new), tl.exp(top - new)
        total = total * shrink + tl.sum(weight, 0)
        acc = acc * shrink + tl.sum(weight[:, None] * value, 0)
        top = new
    if length > 0:
        tl.store(out + (seq * heads + head) * DIM + dim, (acc / total).to(out.dtype.element_ty))

def solution(query, keys, values, tables, lengths, *, scale):
    out = torch.zeros_like(query)
    kernel[query.shape[:2]](query, keys, values, tables, lengths, out, scale, tables.shape[1], keys.shape[1],
                            query.shape[1], keys.shape[2], *keys.stride()[:3], *values.stride()[:3],
                            DIM=query.shape[2], TILE=16)
    return out

if __name__ == "__main__":
    print(exercises.check("paged-decode", solution, progress=None))
"""


def test_a_triton_kernel_passes(run_python, tmp_path):
    pytest.importorskip("triton", reason="Triton has no packages for this system")
    (tmp_path / "cell.py").write_text(TRITON)
    ran = run_python("cell.py")
    assert ran.stdout == "11 of 11 public checks passed\n", ran.stdout + ran.stderr


def test_a_wild_address_is_a_report():
    def wild(query, *rest, scale):
        import ctypes

        return ctypes.string_at(int(rest[2].max()))

    report = exercises.check("paged-decode", wild, progress=None)
    assert "died of SIGSEGV" in report.findings[0].got


def test_the_pictures_show_what_decides():
    picture = exercises.get("merge-splits").picture([[0.0]] * 3, [0.0, -INF, 0.0])
    assert picture.splitlines() == [
        f"part 0: lse 0      {'#' * 20}",
        "part 1: lse -inf   empty",
        f"part 2: lse 0      {'#' * 20}",
    ]
    assert "largest so far 2" in exercises.get("online-softmax").picture([[1.0, 2.0]], [], 3)
