"""Advice on KV memory from a trace of request lengths: a block size, a capacity, and the evidence.

    advise("trace.csv", model="llama-3.1-8b", gpu="h100")

Every answer carries where its number comes from (measured, simulated, published, recorded, computed,
assumed) and what supports it; what the trace does not tell is said to be unknown, with what is missing.
`pagedlab advise` prints the same as text, JSON or a page.
"""

from __future__ import annotations

from pagedlab.advice.advisor import advise
from pagedlab.advice.report import CANNOT_TELL, Advice, Change, Finding, Told
from pagedlab.advice.setting import AdviceError, Choice

__all__ = ["CANNOT_TELL", "Advice", "AdviceError", "Change", "Choice", "Finding", "Told", "advise"]
