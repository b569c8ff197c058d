"""What a learner has done, in one small JSON file beside the lessons.

    {"predictions": {"waste-reserve": 40.0},
     "exercises": {"waste": {"passed": 4, "total": 6, "solved": false}},
     "seed": 481516}

The file belongs to the learner, who may read, edit or delete it. So it is written whole or not at all, what
this version does not know stays in it, and a file that does not read as above is never overwritten.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from pagedlab import _whole

KINDS = ("predictions", "exercises")
FILE = "progress.json"
"""Its name in the folder in which a lesson runs."""


class ProgressError(Exception):
    """The file cannot be read or written. The message says which file, why, and what to do."""


class Progress:
    """The progress kept in the file at `path`, which need not exist yet.

    Every call reads the file anew and a change writes back what it read with one key changed, so that two
    notebooks may keep their progress in one file.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> progress = Progress(Path(folder.name) / "progress.json")
    >>> progress.set("predictions", "waste-reserve", 40.0)
    >>> progress.get("predictions", "waste-reserve"), progress.get("exercises", "waste")
    (40.0, None)
    >>> progress.clear("predictions")
    >>> progress.get("predictions", "waste-reserve") is None
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def get(self, kind: str, key: str) -> Any:
        """What is kept under `key`, or None. Raises ProgressError when the file cannot be read."""
        return self._read()[_known(kind)].get(key)

    def set(self, kind: str, key: str, value: Any) -> None:
        """Keep `value` (anything JSON can say) under `key`. When it cannot, raises and changes nothing."""
        content = self._read()
        content[_known(kind)][key] = value
        self._write(content)

    def clear(self, kind: str, key: str | None = None) -> None:
        """Forget `key`, or all keys of a kind. Forgetting what is not there is no error."""
        content = self._read()
        kept = content[_known(kind)]
        if key in kept or (key is None and kept):
            content[kind] = {k: v for k, v in kept.items() if key is not None and k != key}
            self._write(content)

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            content = {}
        except OSError as error:
            raise ProgressError(f"cannot read {self.path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._unfit(f"is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise self._unfit("holds no JSON object")
        for kind in KINDS:
            if not isinstance(content.setdefault(kind, {}), dict):
                raise self._unfit(f"holds no object under {kind!r}")
        return content

    def _unfit(self, why: str) -> ProgressError:
        return ProgressError(f"{self.path} {why}: mend or delete it; until then it is left as it is")

    def _write(self, content: dict[str, Any]) -> None:
        text = (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
        try:
            _whole.write(self.path.resolve(), text)
        except OSError as error:
            raise ProgressError(f"cannot write {self.path}: {error.strerror}") from error


def record_check(name: str, passed: int, total: int, *, path: str | os.PathLike[str] = FILE) -> None:
    """Keep what the latest check of an exercise found: `passed` of `total` public checks.

    `solved` stays true once every check has passed. Raises ProgressError when it cannot be kept, ValueError
    for counts that no check has.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record_check("waste", 6, 6, path=f"{folder}/{FILE}")
    ...     record_check("waste", 4, 6, path=f"{folder}/{FILE}")
    ...     Progress(f"{folder}/{FILE}").get("exercises", "waste")
    {'passed': 4, 'total': 6, 'solved': True}
    """
    if not 0 <= passed <= total or not total:
        raise ValueError(f"passed and total count checks, 0 <= passed <= total, got {passed} of {total}")
    progress = Progress(path)
    before = progress.get("exercises", name)
    solved = passed == total or (isinstance(before, dict) and before.get("solved") is True)
    progress.set("exercises", name, {"passed": passed, "total": total, "solved": solved})


def learner_seed(*, path: str | os.PathLike[str] = FILE) -> int:
    """A number of this learner's own: drawn when first asked for, kept in the file, from then on the same.

    Checks draw inputs from it, so that a class can compare notes and no answers. Raises ProgressError when
    it cannot be read or kept.
    """
    progress = Progress(path)
    content = progress._read()
    if type(content.get("seed")) is not int:
        content["seed"] = secrets.randbelow(10**6)
        progress._write(content)
    return int(content["seed"])


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"progress keeps {' and '.join(KINDS)}, not {kind!r}")
    return kind
