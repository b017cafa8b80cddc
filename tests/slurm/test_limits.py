"""Concurrency limits of deployments: a run that queues in Slurm keeps its slot."""

import time
from collections.abc import Iterator
from uuid import UUID

import pytest
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.objects import ConcurrencyOptions

from tests.slurm.pool import Pool

GRACE_SECONDS = 60  # Prefect's minimum
SWEEP_SECONDS = 10  # the server checks for expired slots every few seconds


@pytest.fixture(scope="module")
def limited(pool: Pool) -> Iterator[tuple[UUID, float]]:
    """A held run of a deployment that allows one run at a time, and the time when it was seen waiting."""
    options = ConcurrencyOptions.model_validate(
        {"collision_strategy": "CANCEL_NEW", "grace_period_seconds": GRACE_SECONDS}
    )
    update = DeploymentUpdate(concurrency_limit=1, concurrency_options=options)
    with pool.client() as client:
        client.update_deployment(pool.deployments["show-job"], update)
    run_id = pool.submit("show-job", {"folder": "unused"}, extra_directives=["--hold"])
    pool.pending(run_id, "JobHeldUser")
    yield run_id, time.monotonic()
    pool.cancel(run_id)
    pool.end(run_id)
    with pool.client() as client:
        client.update_deployment(pool.deployments["show-job"], DeploymentUpdate(concurrency_limit=None))


def test_a_queued_run_keeps_its_slot(pool: Pool, limited: tuple[UUID, float]) -> None:
    waiting, since = limited
    time.sleep(max(0, since + GRACE_SECONDS + SWEEP_SECONDS - time.monotonic()))
    another = pool.end(pool.submit("show-job", {"folder": "unused"}))
    assert another.state and another.state.is_cancelled() and "limit reached" in str(another.state.message)
    assert pool.read(waiting).state.is_pending()
