"""The CPU kernel against the reference over shapes, layouts, tables and options that nobody thought of."""

from __future__ import annotations

from dataclasses import replace

import torch
from batches import assert_close, batch
from hypothesis import given, settings
from hypothesis import strategies as st

options = st.fixed_dictionaries(
    {},
    optional={
        "scale": st.floats(0.01, 0.3),
        "window": st.integers(1, 700),
        "softcap": st.floats(0.1, 50.0),
    },
)


@settings(max_examples=150, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 600), max_size=4),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 9),
    head_dim=st.integers(1, 130),
    block_size=st.integers(1, 70),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    layout=st.sampled_from(["NHD", "HND"]),
    compressed=st.booleans(),
    options=options,
)
def test_cpu_kernel_agrees_with_reference(
    lengths, kv_heads, group, head_dim, block_size, dtype, layout, compressed, options
):
    heads = (kv_heads * group, kv_heads)
    case = batch(lengths, heads=heads, head_dim=head_dim, block_size=block_size, dtype=dtype, layout=layout)
    exact = case.exact(**options)
    if compressed:
        case = replace(case, block_tables=case.csr())
    assert_close(case.paged(backend="cpu", return_lse=True, **options), exact, dtype)
