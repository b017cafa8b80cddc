"""``python -m tests.soak --seed 1 --minutes 10``: kill, start again, compare; prints figures. Part of `make soak`."""

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cli.server import free_port, prefect_api
from tests.conftest import ROOT
from tests.faults.marks import Faults, processes_of
from tests.soak import victims
from tests.soak.compare import differences, lost_and_doubled
from tests.tasks.convert.serial import convert

MOST_KILLS = 4
GONE_SECONDS = 60
WAYS = ("SIGTERM", "SIGKILL", "SIGKILL of the group")


@dataclass
class Figures:
    """Results of the sweep."""

    roots: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    begun: int = 0
    redone: int = 0
    in_flight: int = 0
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Format the results for people."""
        kills = ", ".join(f"{stage} {count}" for stage, count in sorted(self.kills.items()))
        ways = ", ".join(f"{way} {count}" for way, count in sorted(self.ways.items()))
        return (
            f"{self.roots} datasets, {sum(self.kills.values())} runs killed\n  by stage: {kills}\n  by way: {ways}\n"
            f"pieces of work begun {self.begun}, again {self.redone}; in flight at a kill {self.in_flight}\n"
            f"faults: {len(self.faults)}\n" + "".join(f"  {fault}\n" for fault in self.faults)
        )


@dataclass
class Victim:
    """A dataset in preparation."""

    command: list[str]
    stage: Callable[[], str]
    audit: Path
    dataset: Path
    faults: Faults
    environment: dict[str, str]

    def run(self, reached: Callable[[], bool] = lambda: False) -> subprocess.Popen[bytes] | None:
        """Run to the end, or until ``reached`` holds: then return the running program."""
        log = self.faults.folder / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.command, cwd=ROOT, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        while process.poll() is None:
            if reached():
                return process
            time.sleep(0.02)
        if process.returncode:
            raise RuntimeError(f"{shlex.join(self.command)} ended with {process.returncode}: see {log}")
        return None


def sweep(victim: Victim, stages: tuple[str, ...], rng: random.Random, figures: Figures) -> None:
    """Kill a victim several times, let it finish, and count the work that was done twice."""
    flown: Counter[str] = Counter()
    for _ in range(rng.randint(1, MOST_KILLS)):
        process = victim.run(_at_random_in(victim, stages, rng))
        if process is None:
            break
        stage, way = victim.stage(), rng.choice(WAYS)
        _kill(process, way)
        _await_gone(victim.faults, figures)
        figures.kills[stage] += 1
        figures.ways[way] += 1
        flown.update(victims.unfinished(victim.faults.times(), victim.audit, victim.dataset))
    victim.run()
    redone = Counter({work: count - 1 for work, count in victim.faults.times().items() if count > 1})
    figures.roots += 1
    figures.begun += victim.faults.times().total()
    figures.redone += redone.total()
    figures.in_flight += flown.total()
    if redone - flown:
        figures.faults.append(f"finished work was done again: {dict(redone - flown)}")
    lost, doubled = lost_and_doubled(victim.dataset)
    if lost or doubled:
        figures.faults.append(f"{victim.dataset}: {lost} samples lost, {doubled} doubled")


def _at_random_in(victim: Victim, stages: tuple[str, ...], rng: random.Random) -> Callable[[], bool]:
    """Return a condition that holds a random time after a random stage has begun."""
    wanted, wait, begun = rng.randrange(len(stages)), rng.uniform(0, 3), list[float]()

    def reached() -> bool:
        if not begun and stages.index(victim.stage()) >= wanted:
            begun.append(time.monotonic())
        return bool(begun) and time.monotonic() - begun[0] > wait

    return reached


def _kill(process: subprocess.Popen[bytes], way: str) -> None:
    if way == "SIGKILL of the group":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.send_signal(signal.SIGTERM if way == "SIGTERM" else signal.SIGKILL)
    process.wait(GONE_SECONDS)


def _await_gone(faults: Faults, figures: Figures) -> None:
    """Wait until all processes of the killed run have ended; record a fault if some remain."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := processes_of(faults):
        if time.monotonic() > deadline:
            figures.faults.append(f"{len(left)} processes outlived their run by {GONE_SECONDS} s")
            return
        time.sleep(0.1)


def _victim(folder: Path, url: str, raw: Path | None) -> Victim:
    faults = Faults(folder / "faults")
    faults.folder.mkdir(parents=True)
    env = victims.environment(url, faults)
    if raw is None:
        root = folder / "root"
        audit, dataset = root / "raw" / "audit", root / "energon"
        return Victim(victims.quickstart(root), lambda: victims.stage_of_root(root), audit, dataset, faults, env)
    for stage in ("audit", "scan", "write"):
        faults.mark(stage, "slow")
    work = folder / "work"
    audit, dataset = work / "audit", work / "out"
    return Victim(victims.pipeline(raw, work), lambda: victims.stage_of(audit, dataset), audit, dataset, faults, env)


def _soak_quickstart(folder: Path, url: str, rng: random.Random, figures: Figures) -> None:
    """Kill during the download too: its shards differ from run to run, the conversion of given shards must not."""
    from tasks.contracts.settings import ConvertSettings
    from tasks.metadata.slices import load_slice

    victim = _victim(folder, url, raw=None)
    sweep(victim, victims.DOWNLOAD_STAGES, rng, figures)
    root = folder / "root"
    totals = json.loads((root / "raw" / "audit" / "totals.json").read_bytes())
    if totals["attempts"] != 2000 or totals["successes"] + sum(totals["failure_reasons"].values()) != 2000:
        figures.faults.append(f"{root}: the download does not account for 2,000 URLs: {totals}")
    settings = load_slice(str(root / "quickstart-slice.yaml")).convert_settings(ConvertSettings())
    convert(root / "raw" / "shards", folder / "again", settings, root / "raw" / "audit")
    for path in [*sorted((folder / "again").glob("*.tar")), folder / "again" / "manifest.json"]:
        if path.read_bytes() != (root / "energon" / path.name).read_bytes():
            figures.faults.append(f"{path.name} of {root} is not what an undisturbed conversion makes")


def soak(folder: Path, seed: int, minutes: float, quickstarts: int) -> Figures:
    """Run the sweep: some quickstarts, then small datasets until the time is over."""
    rng, figures = random.Random(seed), Figures()
    with prefect_api(port=free_port()) as api:
        raw = victims.write_raw_shards(folder / "raw")
        undisturbed = _victim(folder / "undisturbed", api.url, raw)
        undisturbed.run()
        until = time.monotonic() + 60 * minutes
        for number in range(quickstarts):
            _soak_quickstart(folder / f"quickstart-{number}", api.url, rng, figures)
        while time.monotonic() < until:
            place = folder / f"{figures.roots:04d}"
            sweep(_victim(place, api.url, raw), victims.STAGES, rng, figures)
            for name in differences(place / "work", folder / "undisturbed" / "work"):
                figures.faults.append(f"{place / 'work' / name} is not that of the undisturbed run")
            sys.stderr.write(f"\n--- seed {seed}\n{figures.text()}")
    return figures


def main() -> int:
    """Run the sweep; return 1 if samples or work were lost, doubled, different or repeated, or processes remain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--quickstarts", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="kept; default: a temporary one")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="soak-"))
    figures = soak(folder.absolute(), given.seed, given.minutes, given.quickstarts)
    sys.stdout.write(f"soak of seed {given.seed}: {figures.text()}")
    return 1 if figures.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
