"""One conversion from start to manifest: which shards to scan, when to stop, which tars to write, and the result.

It does not run the steps itself: a flow passes its jobs to any number of workers, in any order. The output bytes are
always the same.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.contracts.errors import PipelineError, PlanError, ShardError
from tasks.contracts.settings import PLAN_IN_MEMORY, ConvertSettings
from tasks.convert.manifest import build_manifest
from tasks.convert.models import Plan, PrepareFolder, ScanJob, ScanSummary, WriteJob, WrittenTar
from tasks.convert.oddities import ODD_COLUMNS, count_oddities, dropped_kinds
from tasks.convert.output_folder import check_output_folder, plan_identity
from tasks.convert.plan import Array, Decision, byte_settings, decide, make_plan, read_excluded
from tasks.convert.plan_files import write_plan
from tasks.convert.plan_receipt import finished_plan, leave_receipt
from tasks.convert.plan_rows import EMITTED, PlanRows, Scan
from tasks.convert.uids import CopiesJob, UidsInMemory, UidsOnDisk
from tasks.io.files import remove_leftovers, write_json
from tasks.io.fingerprints import Fingerprints, Verify
from tasks.io.raw_tar import list_raw_tars
from tasks.io.shard_index import ShardIndexes
from tasks.running.groups import finished_by_notes, look_up


@dataclass
class Conversion:
    """The conversion of the raw tars in ``source_dir`` into the dataset in ``dataset_dir``.

    ``audit_dir``: the folder with the audit's indexes; None without an audit. ``plan_in_memory``: the largest number
    of samples for which this process searches for copies in memory. Creating a Conversion checks everything that can
    be checked without reading a sample, and writes nothing; it raises SettingsError, ShardError or PlanError.
    """

    source_dir: Path
    dataset_dir: Path
    audit_dir: Path | None
    settings: ConvertSettings
    verify: Verify = "changed"
    plan_in_memory: int = PLAN_IN_MEMORY
    scanned: dict[str, ScanSummary] = field(default_factory=dict)
    failed: dict[str, BaseException] = field(default_factory=dict)
    _row: list[ScanSummary] = field(default_factory=list, init=False)
    _usable: int = field(default=0, init=False)
    _rejected: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.excluded = read_excluded(self.settings.exclude_uids)
        self.tars = list_raw_tars(self.source_dir)
        self.byte_settings = byte_settings(self.settings, self.excluded)
        self._check_output_folder()

    @cached_property
    def folder(self) -> PrepareFolder:
        """The dataset's ``.prepare`` folder."""
        return PrepareFolder(dataset_dir=self.dataset_dir)

    def begin(self) -> None:
        """Remove partial files of a killed conversion, and with ``verify="full"`` the fingerprints of earlier runs.

        Call this while holding the folder's lock: creating a Conversion changes nothing.
        """
        remove_leftovers(self.dataset_dir)
        if self.verify == "full":
            self.folder.fingerprints().forget()
            self._raw_hashes.forget()
            self._raw_hashes.keep_notes()

    def look_up_scans(self, task_runs: int) -> int:
        """Record the scans that have a valid receipt (see tasks/running/groups.py); return how many tars are left."""
        for job, summary in look_up(map(self._scan_job, self.tars), task_runs):
            if summary is not None:
                self.scanned[job.shard] = summary
        return len(self.tars) - len(self.scanned)

    def scan_jobs(self) -> Iterator[ScanJob]:
        """Yield scan jobs for the raw tars in order, until the scanned tars hold enough samples.

        A caller that takes a job before earlier jobs have finished scans ahead: this may cost time, but does not
        change the output.
        """
        for tar in self.tars:
            if self.enough():
                return
            if tar.stem not in self.scanned:
                yield self._scan_job(tar)

    def scan_ended(self, job: ScanJob, error: BaseException | None) -> None:
        """Record the end of a scan; a damaged tar is only an error if the plan needs it."""
        summary = finished_by_notes(job) or job.finished()
        if summary is not None:
            self.scanned[job.shard] = summary
        else:
            self.failed[job.shard] = error or PipelineError(f"{job}: it left no valid receipt; run again")

    def enough(self) -> bool:
        """Return whether the scanned tars, from the first up to the first gap, hold ``maximum_samples`` samples."""
        maximum = self.settings.maximum_samples
        if maximum is None:
            return False
        done = self._first_scanned()
        if self._usable < maximum + self._rejected:
            return False
        try:
            scans = self._scans(done)
            decision = decide(scans, self._rows(scans), maximum)
        except ShardError:
            return True  # a damaged tar blocks the plan: scanning more tars does not help
        self._rejected = self._usable - sum(decision.emitted)
        return decision.reached

    def plan(self, search: Callable[[list[CopiesJob]], object] | None = None) -> Plan:
        """Decide on every sample and write the plan, or return the existing plan if its receipt is valid.

        ``search`` may pass the search for copies to workers if it does not fit into memory; this process searches
        the remaining parts. Raises ShardError if a required tar is damaged or was not scanned (the plan never skips
        it), PlanError if the folder belongs to another plan.
        """
        done = self._first_scanned()
        if not done:
            self._refuse_missing_scan(self.tars[0])
        scans = self._scans(done)
        plan = finished_plan(self.folder, self.byte_settings, scans)
        if plan is not None and (self.settings.accept_cut_tars or not plan.accepted_gaps):
            return plan
        return self._make_plan(scans, search)

    def _make_plan(self, scans: list[Scan], search: Callable[[list[CopiesJob]], object] | None) -> Plan:
        rows = self._rows(scans)
        if search is not None:
            search(rows.uids.jobs())
        decision = decide(scans, rows, self.settings.maximum_samples)
        if not decision.reached and len(scans) < len(self.tars):
            self._refuse_missing_scan(self.tars[len(scans)])
        oddities = count_oddities(_emitted(scans, decision))
        plan = make_plan(scans, decision, self.byte_settings, len(self.tars), oddities)
        if plan_identity(self.folder) not in (None, plan.identity):
            raise PlanError(f"{self.dataset_dir} belongs to another plan; use another dataset_name (or output_dir)")
        write_plan(self.folder, plan, decision, scans)
        leave_receipt(self.folder, plan, scans)
        shutil.rmtree(self.folder.uids, ignore_errors=True)
        return plan

    def write_jobs(self, plan: Plan) -> list[WriteJob]:
        """Return a job for every output tar."""
        return [
            WriteJob(
                source_dir=self.source_dir,
                dataset_dir=self.dataset_dir,
                filename=tar.filename,
                plan_identity=plan.identity,
            )
            for tar in plan.tars
        ]

    def finish(self, plan: Plan) -> dict[str, Any]:
        """Write the manifest from the receipts of all tars and return it. Raises PlanError if a receipt is missing."""
        written: dict[str, WrittenTar] = {}
        for job in self.write_jobs(plan):
            tar = job.finished()
            if tar is None:
                raise PlanError(f"{job.path} has no valid receipt; run the conversion again: it writes what is missing")
            written[job.filename] = tar
        manifest = build_manifest(plan, written, self.settings, len(self.tars))
        write_json(self.dataset_dir / "manifest.json", manifest)
        return manifest

    def _refuse_missing_scan(self, tar: Path) -> None:
        cause = self.failed.get(tar.stem)
        raise ShardError(f"{tar.name} is needed but could not be scanned: {cause}") from cause

    def _first_scanned(self) -> list[ScanSummary]:
        """Return the summaries of the scanned tars, from the first tar up to the first without a summary."""
        while len(self._row) < len(self.tars):
            summary = self.scanned.get(self.tars[len(self._row)].stem)
            if summary is None:
                break
            self._row.append(summary)
            self._usable += summary.usable
        return self._row

    def _scans(self, done: list[ScanSummary]) -> list[Scan]:
        jobs = [self._scan_job(tar) for tar in self.tars[: len(done)]]
        return [
            Scan(
                summary,
                job.indexes().fingerprint(job.tar),
                job.table_path,
                dropped=dropped_kinds(self.settings),
                accept_gap=self.settings.accept_cut_tars,
            )
            for summary, job in zip(done, jobs, strict=True)
        ]

    def _rows(self, scans: list[Scan]) -> PlanRows:
        total = sum(scan.summary.samples for scan in scans)
        in_memory = total <= self.plan_in_memory
        uids = UidsInMemory(total) if in_memory else UidsOnDisk(self.folder.uids, total)
        return PlanRows(scans, uids, self.settings.validation_fraction, self.excluded)

    def _scan_job(self, tar: Path) -> ScanJob:
        return ScanJob(
            source_dir=self.source_dir,
            dataset_dir=self.dataset_dir,
            audit_dir=self.audit_dir,
            shard=tar.stem,
            verify=self.verify,
        )

    def _check_output_folder(self) -> None:
        """Raise PlanError for a folder that is not ours. Writes nothing: new fingerprints wait for ``begin``."""
        self._raw_hashes = Fingerprints(self.folder.index / "fingerprints", self.verify, keep=False)
        indexes = ShardIndexes(self.folder.index, self.audit_dir, self.verify == "changed", self._raw_hashes)
        available = map(indexes.fingerprint, self.tars)
        check_output_folder(self.source_dir, self.dataset_dir, self.byte_settings, available)


def _emitted(scans: list[Scan], decision: Decision) -> Iterator[tuple[pa.Table, Array]]:
    """Yield, for each opened shard, its columns ODD_COLUMNS and which samples are emitted."""
    for scan, shard in zip(scans[: decision.opened], decision.shards(), strict=True):
        emitted = decision.code[shard] == EMITTED
        yield scan.read(ODD_COLUMNS).slice(0, len(emitted)), emitted
