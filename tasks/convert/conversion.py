"""One conversion from start to manifest: what to scan next, when it is enough, what to write, what came of it.

It runs no step itself: a flow hands its jobs to workers, in any number and order, and the bytes are the same.
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

    ``audit_dir``: where the audit keeps its indexes, if there was one. Creating it checks everything that can
    be checked without reading a sample, and writes nothing; raises SettingsError, ShardError or PlanError.
    ``plan_in_memory``: up to so many samples, copies are searched in this process.
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
        """Remove what a killed conversion left half written, and notes that do not count under ``verify="full"``.

        Must be called inside the folder's lock: creating a Conversion changes nothing.
        """
        remove_leftovers(self.dataset_dir)
        if self.verify == "full":
            self.folder.fingerprints().forget()
            self._raw_hashes.forget()
            self._raw_hashes.keep_notes()

    def look_up_scans(self, task_runs: int) -> int:
        """Take note of scans that receipts tell of (see tasks/running/groups.py); returns how many tars are left."""
        for job, summary in look_up(map(self._scan_job, self.tars), task_runs):
            if summary is not None:
                self.scanned[job.shard] = summary
        return len(self.tars) - len(self.scanned)

    def scan_jobs(self) -> Iterator[ScanJob]:
        """Raw tars in order, until those that are scanned give enough samples.

        A reader that takes a job before earlier ones have ended scans ahead, which costs time, not bytes.
        """
        for tar in self.tars:
            if self.enough():
                return
            if tar.stem not in self.scanned:
                yield self._scan_job(tar)

    def scan_ended(self, job: ScanJob, error: BaseException | None) -> None:
        """Take note that a scan is over; a tar that is damaged is only an error if the plan needs it."""
        summary = finished_by_notes(job) or job.finished()
        if summary is not None:
            self.scanned[job.shard] = summary
        else:
            self.failed[job.shard] = error or PipelineError(f"{job}: it left no valid receipt; run again")

    def enough(self) -> bool:
        """Whether the unbroken row of scanned tars from the first on holds ``maximum_samples`` samples."""
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
            return True  # a damaged tar is in the way: scanning on will not mend it
        self._rejected = self._usable - sum(decision.emitted)
        return decision.reached

    def plan(self, search: Callable[[list[CopiesJob]], object] | None = None) -> Plan:
        """Decide on every sample, and write that down; a plan that a valid receipt tells of is taken as it is.

        ``search`` may hand the search of a plan too large for memory to workers; what it leaves is done here. Raises
        ShardError if a tar that is needed is damaged or has no scan (no plan is made around it), PlanError if the
        folder belongs to another plan.
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
        """A job for every output tar."""
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
        """Write the manifest from the receipts of all tars, and return it. Raises PlanError if one is missing."""
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
        """Summaries of the scanned tars, from the first tar up to the first that has none."""
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
        """Raise PlanError for a folder that is not ours. Writes nothing: new hashes are held back until ``begin``."""
        self._raw_hashes = Fingerprints(self.folder.index / "fingerprints", self.verify, keep=False)
        indexes = ShardIndexes(self.folder.index, self.audit_dir, self.verify == "changed", self._raw_hashes)
        available = map(indexes.fingerprint, self.tars)
        check_output_folder(self.source_dir, self.dataset_dir, self.byte_settings, available)


def _emitted(scans: list[Scan], decision: Decision) -> Iterator[tuple[pa.Table, Array]]:
    """For each opened shard what makes a sample odd, and which samples are emitted."""
    for scan, shard in zip(scans[: decision.opened], decision.shards(), strict=True):
        emitted = decision.code[shard] == EMITTED
        yield scan.read(ODD_COLUMNS).slice(0, len(emitted)), emitted
