"""What a step's message must carry, and what it must refuse."""

from __future__ import annotations

import contextlib
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab import workloads
from pagedlab.parallel import (
    BadMessage,
    Row,
    Step,
    decode_difference,
    decode_full,
    digest,
    encode_difference,
    encode_full,
    message_cost,
)
from pagedlab.parallel.schedules import RandomSchedule, ServingSchedule
from pagedlab.parallel.tables import NOTHING

blocks = st.integers(-1, 2**31 - 2)
names = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=6)
rows = st.builds(
    lambda table, start, growth: Row(tuple(table), start, start + growth),
    st.lists(blocks, max_size=12),
    st.integers(0, 2**30),
    st.integers(0, 2**20),
)
steps = st.builds(
    lambda batch, copies: Step(batch, tuple(copies)),
    st.dictionaries(names, rows, max_size=6),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)), max_size=4),
)


@settings(max_examples=300, deadline=None)
@given(old=steps, new=steps)
def test_any_step_comes_back_from_either_form_in_order(old, new):
    for decoded in (decode_full(encode_full(new)), decode_difference(old, encode_difference(old, new))):
        assert decoded == new
        assert list(decoded.rows) == list(new.rows)


@settings(max_examples=200, deadline=None)
@given(old=steps, new=steps, data=st.data())
def test_a_cut_or_altered_message_is_refused_or_leads_to_another_digest(old, new, data):
    for encode, decode in (
        (encode_full, decode_full),
        (lambda step: encode_difference(old, step), lambda message: decode_difference(old, message)),
    ):
        message = bytearray(encode(new))
        if data.draw(st.booleans()):
            message = message[: data.draw(st.integers(0, max(0, len(message) - 1)))]
        else:
            place = data.draw(st.integers(0, len(message) - 1))
            message[place] ^= 1 << data.draw(st.integers(0, 7))
        try:
            decoded = decode(bytes(message))
        except BadMessage:
            continue
        assert decoded == new or digest(decoded) != digest(new)


@settings(max_examples=300, deadline=None)
@given(junk=st.binary(max_size=64))
def test_junk_is_a_bad_message_or_a_step_never_another_error(junk):
    for decode in (decode_full, lambda message: decode_difference(NOTHING, message)):
        with contextlib.suppress(BadMessage):
            assert isinstance(decode(junk), Step)


def test_a_step_in_which_everybody_grows_in_place_costs_four_bytes():
    old = Step({str(n): Row(tuple(range(n, n + 50)), 600, 700) for n in range(64)})
    new = Step({name: Row(row.table, row.stop, row.stop + 1) for name, row in old.rows.items()})
    assert len(encode_difference(old, new)) == 4  # nobody left, changed or came, nothing is copied
    assert len(encode_full(new)) > 64 * 50 * 4


@pytest.mark.parametrize("block_size", [4, 16, 128])
def test_differences_of_served_conversations_take_a_tenth_of_full_tables_at_most(block_size):
    workload = workloads.named("azure-conversation", 400)
    assert message_cost(workload, batch=64, block_size=block_size, steps=300).saving >= 10


def test_steps_past_the_last_request_cost_their_empty_messages():
    workload = workloads.named("uniform", 3)
    cost = message_cost(workload, batch=2, steps=10_000)
    served = message_cost(workload, batch=2, steps=20)
    assert served.steps == 20 < cost.steps
    assert 0 < cost.full_bytes < served.full_bytes


def test_the_random_schedule_does_everything_and_does_it_again():
    one, two = RandomSchedule(3, 48, 4), RandomSchedule(3, 48, 4)
    assert list(islice(one, 400)) == list(islice(two, 400))
    assert all(one.counts.values()), one.counts


def test_a_served_sequence_starts_where_it_stopped_and_a_preempted_one_anew():
    workload = workloads.named("azure-conversation", 40)
    schedule = ServingSchedule(workload, 16, 16, num_slots=int(workload.stored.max()) + 2_000)
    last, started_anew = {}, 0
    for step in schedule:
        for name, row in step.rows.items():
            assert row.start in (0, last.get(name, 0)) and row.start < row.stop <= 16 * len(row.table)
            started_anew += row.start == 0 and name in last
            last[name] = row.stop
    assert started_anew > 0
    assert len(last) == len(workload)
