"""Loggers: callbacks that write the numbers of steps and epochs into files."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from hybrid.core.imports import optional
from hybrid.errors import DataFileError
from hybrid.train.arguments import require_count, require_per
from hybrid.train.callback import Callback

if TYPE_CHECKING:
    from hybrid.train.run import Run


class CSVLogger(Callback):
    """A table of the epochs as a CSV file: epoch, step, loss, metrics, those of validation.

    ``per="step"`` makes a row of every ``every``-th step, with its loss and the ``scalars``.  What
    an epoch lacks is empty.  A training that is resumed adds to the file.  Rows are in the file by
    the end of their epoch.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        per: str = "epoch",
        every: int = 1,
        scalars: tuple[str, ...] = (),
    ) -> None:
        self.path, self.per = os.fsdecode(path), require_per(per)
        self.period = require_count("every", every, 1)
        self.every = self.period if per == "step" else 0
        self.scalars = scalars
        self._file: IO[str] | None = None
        self._table: Any = None

    def on_train_begin(self, run: Run) -> None:
        names = ["loss", *self.scalars] if self.per == "step" else run.names
        columns = ["epoch", "step", *dict.fromkeys(names)]
        goes_on = run.step > 0 and os.path.exists(self.path)
        if goes_on:
            self._require_columns(columns)
        how = "a" if goes_on else "w"
        self._file = open(self.path, how, newline="", encoding="utf-8")  # noqa: SIM115  see close()
        self._table = csv.DictWriter(self._file, columns, restval="", lineterminator="\n")
        if not goes_on:
            self._table.writeheader()

    def _require_columns(self, columns: list[str]) -> None:
        with open(self.path, newline="", encoding="utf-8") as file:
            found = next(csv.reader(file), [])
        if found != columns:
            raise DataFileError(
                f"{self.path} has the columns {', '.join(found)}; this training has "
                f"{', '.join(columns)}",
                fix="give CSVLogger another path, or make it and the Model as they were",
            )

    def on_step_end(self, run: Run) -> None:
        self._write(run, ("loss", *self.scalars))

    def on_epoch_end(self, run: Run) -> None:
        if self.per == "epoch" and run.epoch % self.period == 0:
            self._write(run, run.names)
        if self._file is not None:
            self._file.flush()

    def _write(self, run: Run, names: Any) -> None:
        values = {name: run.values[name] for name in names if name in run.values}
        self._table.writerow({"epoch": run.epoch, "step": run.step, **values})

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class TensorBoard(Callback):
    """Scalars for TensorBoard in ``folder``: "step/loss" of steps, "epoch/..." of epochs.

    ``every`` is how many steps lie between two points; ``scalars`` of steps are written, too.
    Needs the package ``tensorboard`` (extra ``tensorboard``).
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, every: int = 1, scalars: tuple[str, ...] = ()
    ) -> None:
        self._summary = optional("tensorboard.summary", "tensorboard", "hybrid.train.TensorBoard")
        self.folder, self.every = os.fsdecode(folder), require_count("every", every, 1)
        self.scalars = scalars
        self._writer: Any = None

    def on_train_begin(self, run: Run) -> None:
        self._writer = self._summary.Writer(self.folder)

    def on_step_end(self, run: Run) -> None:
        self._add("step", {name: run.values[name] for name in ("loss", *self.scalars)}, run.step)

    def on_epoch_end(self, run: Run) -> None:
        self._add("epoch", run.values, run.epoch)
        self._writer.flush()

    def _add(self, group: str, values: Mapping[str, float], at: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, at)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
