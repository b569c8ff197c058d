"""Many measurements of one kind, over a grid of parameters: resumed where they were interrupted, and run by
whatever executor there is.

    rows = run(measure, grid(block_size=[1, 16, 128], tokens=[512, 4096]), path="rows.jsonl")

A row is written the moment it is measured, as one line of JSON with a hash of the function's name and its
parameters. A second run with the same file measures what is missing and nothing else. Without an executor
the rows are measured one after the other in this process; with one, by it:

    concurrent.futures.ProcessPoolExecutor()                    the cores of this machine
    dask.distributed.Client("host:8786").get_executor()         many machines, Dask's
    mpi4py.futures.MPIPoolExecutor()                            many machines, MPI's; start the script with
                                                                mpiexec -n 9 python -m mpi4py.futures

The rows are the same whichever it was, in the order of the grid. Times are another matter: measurements that
share a machine disturb each other, so give each worker a machine of its own, or time in one process.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path
from typing import Any

from pagedlab._bar import bar

Parameters = dict[str, Any]
Row = dict[str, Any]
_BEGINS = '{"key": "'  # how every row is written


class SweepError(RuntimeError):
    """A measurement raised, or a file of rows cannot be used; rows measured before are kept."""


def grid(**values: Iterable[Any]) -> list[Parameters]:
    """Every combination of values, the last one varying fastest.

    >>> grid(size=[1, 16], layout=["HND"])
    [{'size': 1, 'layout': 'HND'}, {'size': 16, 'layout': 'HND'}]
    """
    return [dict(zip(values, row, strict=True)) for row in itertools.product(*values.values())]


def run(
    measure: Callable[..., Mapping[str, Any]],
    points: Iterable[Parameters],
    *,
    path: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    check: Callable[[Row], object] = lambda row: None,
) -> list[Row]:
    """Call `measure(**point)` for each point and return `{**point, **result}`, in the order of the points.

    Points and results are plain data, as JSON knows it. For an executor of other processes `measure` is a
    function of a module. With a `path`, rows found there are not measured again; `check` raises for one that
    cannot be what `measure` returned. `progress` shows a bar on standard error. Ctrl-C ends it with the rows
    so far in the file.

    Raises SweepError when a measurement raises (it names the point; what was measured before is kept) or
    when the file has a line that is no row, TypeError or ValueError for what JSON cannot say.

    >>> run(lambda a, b: {"sum": a + b}, grid(a=[1, 2], b=[10]))
    [{'a': 1, 'b': 10, 'sum': 11}, {'a': 2, 'b': 10, 'sum': 12}]
    """
    listed = [_plain(point) for point in points]
    keys = [_key(measure, point) for point in listed]
    wanted = dict(zip(keys, listed, strict=True))
    rows = _read(Path(path), wanted, check) if path else {}
    missing = {key: point for key, point in wanted.items() if key not in rows}
    with bar(progress, len(wanted), initial=len(rows), unit=" rows") as step:
        for key, result in _measured(measure, missing, executor):
            rows[key] = {**wanted[key], **_plain(result)}
            if path:
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "row": rows[key]}) + "\n")
            step(1)
    return [rows[key] for key in keys]


def frame(rows: Iterable[Row]) -> Any:
    """The rows as a pandas DataFrame. Raises ImportError where pandas is missing."""
    from pandas import DataFrame

    return DataFrame(list(rows))


def _measured(
    measure: Callable[..., Mapping[str, Any]], missing: Mapping[str, Parameters], executor: Executor | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Results by key, as they come."""
    if executor is None:
        for key, point in missing.items():
            try:
                yield key, measure(**point)
            except Exception as error:
                raise _failed(point, error) from error
        return
    futures: dict[Future[Mapping[str, Any]], str] = {}
    try:
        for key, point in missing.items():
            futures[executor.submit(measure, **point)] = key
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except Exception as error:
                raise _failed(missing[futures[future]], error) from error
    finally:
        for future in futures:
            future.cancel()


def _failed(point: Parameters, error: Exception) -> SweepError:
    return SweepError(f"{point}: {type(error).__name__}: {error}")


def _key(measure: Callable[..., Any], point: Parameters) -> str:
    name = f"{measure.__module__}.{measure.__qualname__}"
    return hashlib.sha256(json.dumps([name, point], sort_keys=True).encode()).hexdigest()[:24]


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """As it would come back from the file, so that a resumed sweep returns the same."""
    return json.loads(json.dumps(dict(value), allow_nan=False))


def _read(path: Path, wanted: Container[str], check: Callable[[Row], object]) -> dict[str, Row]:
    """Rows that are wanted, by key. A last line without its end was cut off as it was written: it is taken
    out of the file."""
    if not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SweepError(f"{path}: no rows of a sweep: {error}") from None
    whole, _, cut = text.rpartition("\n")
    rows = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            plain = json.loads(line)
            key, row = plain["key"], dict(plain["row"])
            if key in wanted:
                check(row)
                rows[key] = row
        except (ValueError, TypeError, KeyError) as error:
            raise SweepError(f"{path}, line {number}: no row of a sweep: {error!r}") from None
    if not cut.startswith(_BEGINS[: len(cut)]):  # somebody else's text, which stays
        raise SweepError(f"{path}: its last line is no row of a sweep: {cut[:40]!r}")
    if cut:
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    return rows
