"""The public calls: attention over a paged cache or contiguous rows, for one new token a sequence or many.

All go the same way: check what arrived, describe it as an `AttentionCall`, let `backends` choose who serves
it. Heavy imports wait until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .backends import choose

if TYPE_CHECKING:
    from torch import Tensor

    from .call import AttentionCall
    from .csr import CSRTable


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor | CSRTable,
    seq_lens: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    num_splits: int | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    backend: str = "auto",
    return_lse: bool = False,
    check: bool = True,
) -> Any:
    """Attend from one query token per sequence to the tokens that its block table leads to.

    Tensors, all on one device:

    - `query [seqs, q_heads, head_dim]`: float32, float16 or bfloat16 (float64: `reference` only);
    - `key_cache`, `value_cache` `[blocks, block_size, kv_heads, head_dim]`: the query's dtype, or quantised:
      int8 or float8_e4m3fn; any strides whose head dimension is dense, so NHD and HND caches are both views;
      `kv_heads` divides `q_heads`. The rows of V may be shorter or longer than those of K (`reference`);
    - `block_tables [seqs, max_blocks]` int32, or a `CSRTable` (read as it is, never padded). Entries past a
      sequence's end, or wholly left of its window, are never followed and may hold anything;
    - `seq_lens [seqs]` int32: tokens, the current one included. A length of 0 gives zeros and lse = -inf.

    Options:

    - `scale` multiplies the scores, by default `head_dim ** -0.5`;
    - `window`: how many tokens a query sees, itself included;
    - `softcap` bounds each score s to `softcap * tanh(s / softcap)`;
    - `num_splits` cuts every sequence into so many parts, worked on side by side and merged by their
      log-sum-exp (`triton` and `reference`). By default a GPU gets as many as it takes to occupy it;
    - `k_scale`, `v_scale`: what the numbers of a quantised cache are multiples of, one number or float32
      `[blocks, block_size, kv_heads]`, as `write_kv` leaves it;
    - `backend`: a name, or "auto" for the fastest that can serve the call;
    - `check=False` skips what has to read the table and the lengths. For a caller who has checked them
      before: a wrong id then reads foreign memory.

    Returns `[seqs, q_heads, head_dim]` (V's) in the query's dtype; with `return_lse` also the natural
    logarithm of the softmax's denominator, `[seqs, q_heads]` float32 (float64 for float64). There is no
    backward pass.

    Raises TypeError, ValueError or IndexError before anything runs, naming the argument, value and rule.

    >>> import torch
    >>> value = torch.arange(12.0).view(3, 4, 1, 1)        # 3 blocks of 4 slots, 1 KV head, head_dim 1
    >>> table = torch.tensor([[2, 0]], dtype=torch.int32)  # tokens 0-3 in block 2, tokens 4-7 in block 0
    >>> lengths = torch.tensor([6], dtype=torch.int32)
    >>> query, key = torch.zeros(1, 1, 1), torch.zeros(3, 4, 1, 1)  # equal scores, so a plain mean
    >>> paged_attention(query, key, value, table, lengths).item()   # (8 + 9 + 10 + 11 + 0 + 1) / 6
    6.5

    Sources: Kwon et al., Efficient Memory Management for Large Language Model Serving with PagedAttention,
    2023; for the running softmax Milakov and Gimelshein, Online normalizer calculation for softmax, 2018;
    for the splits Dao et al., Flash-Decoding for long-context inference, 2023.
    """
    from . import checks  # brings torch

    options = checks.Options(scale, window, softcap, num_splits, k_scale, v_scale)
    call = checks.paged_call(
        query, key_cache, value_cache, block_tables, seq_lens, None, options, check=check
    )
    return _serve(call, backend, return_lse)


def contiguous_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    seq_lens: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    num_splits: int | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    backend: str = "auto",
    return_lse: bool = False,
    check: bool = True,
) -> Any:
    """Attend from one query token per sequence to its own row of keys: the twin of `paged_attention`.

    The twin runs the same code over the same tiles. It differs in having no table and in nothing else, so the
    difference in time between the two is what paging costs.

    `keys` and `values` are `[seqs, max_len, kv_heads, head_dim]`, with any strides whose head dimension is
    dense (a head-major tensor is a view); sequence `i` owns the first `seq_lens[i] <= max_len` tokens of row
    `i`. All else, results and errors included, is as in `paged_attention`.

    >>> import torch
    >>> values = torch.tensor([1.0, 2.0, 3.0, 100.0]).view(1, 4, 1, 1)
    >>> lengths = torch.tensor([3], dtype=torch.int32)
    >>> contiguous_attention(torch.zeros(1, 1, 1), torch.zeros(1, 4, 1, 1), values, lengths).item()
    2.0
    """
    from . import checks  # brings torch

    options = checks.Options(scale, window, softcap, num_splits, k_scale, v_scale)
    call = checks.contiguous_call(query, keys, values, seq_lens, None, options, check=check)
    return _serve(call, backend, return_lse)


def paged_prefill(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor | CSRTable,
    seq_lens: Tensor,
    cu_seqlens_q: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    num_splits: int | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    backend: str = "auto",
    return_lse: bool = False,
    check: bool = True,
) -> Any:
    """Attend from the newest tokens of each sequence, whose keys and values are in the cache already.

    - `query [tokens, q_heads, head_dim]`: those of one sequence after those of the other;
    - `cu_seqlens_q [seqs + 1]` int32: sequence `i` owns rows `cu_seqlens_q[i]` to `cu_seqlens_q[i + 1]`;
    - `seq_lens [seqs]` int32: tokens, the new ones included.

    Causal: a token sees itself and what came before it. So a whole prompt, a later chunk of one and a decode
    (one row) differ in numbers only, and one batch may hold them all. More rows than a sequence has tokens
    stand for tokens before its first: they see nothing, and give zeros and lse = -inf. All else is as in
    `paged_attention`, with a row for each token.

    >>> import torch
    >>> value = torch.arange(1.0, 9.0).view(2, 4, 1, 1)              # 2 blocks of 4 slots
    >>> table = torch.tensor([[1, 0]], dtype=torch.int32)            # values 5 6 7 8 1 2
    >>> lengths, starts = (torch.tensor(n, dtype=torch.int32) for n in ([6], [0, 2]))  # the last two are new
    >>> query, key = torch.zeros(2, 1, 1), torch.zeros(2, 4, 1, 1)
    >>> paged_prefill(query, key, value, table, lengths, starts).flatten()  # 27 / 5 and 29 / 6
    tensor([5.4000, 4.8333])
    """
    from . import checks  # brings torch

    options = checks.Options(scale, window, softcap, num_splits, k_scale, v_scale)
    call = checks.paged_call(
        query, key_cache, value_cache, block_tables, seq_lens, _given(cu_seqlens_q), options, check=check
    )
    return _serve(call, backend, return_lse)


def contiguous_prefill(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    seq_lens: Tensor,
    cu_seqlens_q: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    num_splits: int | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    backend: str = "auto",
    return_lse: bool = False,
    check: bool = True,
) -> Any:
    """Attend from the newest tokens of each sequence to its own row of keys: the twin of `paged_prefill`.

    `keys` and `values` are as in `contiguous_attention`, all else as in `paged_prefill`.

    >>> import torch
    >>> values = torch.arange(1.0, 4.0).view(1, 3, 1, 1)
    >>> lengths, starts = (torch.tensor(n, dtype=torch.int32) for n in ([3], [0, 3]))
    >>> contiguous_prefill(torch.zeros(3, 1, 1), torch.zeros(1, 3, 1, 1), values, lengths, starts).flatten()
    tensor([1.0000, 1.5000, 2.0000])
    """
    from . import checks  # brings torch

    options = checks.Options(scale, window, softcap, num_splits, k_scale, v_scale)
    call = checks.contiguous_call(query, keys, values, seq_lens, _given(cu_seqlens_q), options, check=check)
    return _serve(call, backend, return_lse)


def _given(cu_seqlens_q: Any) -> Any:
    if cu_seqlens_q is None:  # to the checks, None is a decode
        raise TypeError("cu_seqlens_q must be a torch.Tensor [seqs + 1], got NoneType")
    return cu_seqlens_q


def _serve(call: AttentionCall, backend: str, return_lse: bool) -> Any:
    out, lse = choose(backend, call).attend(call)
    return (out, lse) if return_lse else out
