"""Leases on the slots of deployments' concurrency limits, renewed for runs whose jobs are pending.

Prefect gives a slot as a lease of 300 s by default. A running flow renews its own lease, but a queued one cannot. The
server would then give the slot to the next run, and both would run at once.
"""

import time
from uuid import UUID

from httpx import HTTPStatusError
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

LEASE_SECONDS = 300
_RENEW_AFTER_SECONDS = LEASE_SECONDS / 4


class Leases:
    """The leases that one worker renews."""

    def __init__(self) -> None:
        self._renewed: dict[UUID, float] = {}

    async def renew(self, client: PrefectClient, run: FlowRun) -> bool:
        """Renew the lease of a pending run if it is due. Return False if its slot was given to another run."""
        lease = run.state.state_details.deployment_concurrency_lease_id if run.state else None
        now = time.monotonic()
        if lease is None or not (run.state and run.state.is_pending()):
            return True
        if now - self._renewed.get(lease, float("-inf")) < _RENEW_AFTER_SECONDS:
            return True
        self._renewed = {key: at for key, at in self._renewed.items() if now - at < LEASE_SECONDS} | {lease: now}
        try:
            await client.renew_concurrency_lease(lease, LEASE_SECONDS)
        except HTTPStatusError as error:
            if error.response.is_server_error:
                raise
            return False
        return True
