"""One command creates a work pool and its deployments, even while the server is busy."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, WorkPoolFilter
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from cli.server import free_port
from deployments.deploy import deploy
from tasks.contracts.errors import PipelineError
from tests.conftest import ROOT


def declared(pool: str) -> set[str]:
    """Return the entry points that prefect.yaml declares on a pool."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    return {deployment["entrypoint"] for deployment in deployments if deployment["work_pool"]["name"] == pool}


def deployed(pool: str) -> list[Any]:
    """Return the deployments of a pool on the server."""
    with get_client(sync_client=True) as client:
        return client.read_deployments(
            work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": [pool]}}),
            deployment_filter=DeploymentFilter.model_validate({"name": {"any_": ["local", "slurm"]}}),
        )


@pytest.fixture(autouse=True)
def without_pools(prefect_server: str) -> Iterator[None]:
    """Remove both of our pools before and after each test."""

    def remove() -> None:
        with get_client(sync_client=True) as client:
            for pool in client.read_work_pools():
                if pool.name in {"local", "slurm"}:
                    for deployment in deployed(pool.name):
                        client.delete_deployment(deployment.id)
                    client.delete_work_pool(pool.name)

    remove()
    yield
    remove()


@pytest.mark.parametrize("pool", ["local", "slurm"])
def test_each_flow_is_deployed_once_with_what_prefect_yaml_declares(program: Callable[..., Any], pool: str) -> None:
    done = program("cli", "deploy", "--pool", pool)
    assert done.status == 0, done.stderr
    found = deployed(pool)
    assert sorted(deployment.entrypoint for deployment in found) == sorted(declared(pool))
    created = [line for line in done.stdout.splitlines() if line.endswith(": created.")]
    assert len(created) == len(found) and f"Deployment quickstart/{pool}: created." in created
    (prepare,) = [deployment for deployment in found if deployment.entrypoint.endswith("prepare_datacomp")]
    assert prepare.tags == ["datacomp", "pipeline"] and prepare.enforce_parameter_schema
    assert "root" in prepare.parameter_openapi_schema["properties"] and prepare.pull_steps == []
    assert prepare.job_variables.get("cpus_per_task") == (64 if pool == "slurm" else None)


def test_a_second_time_updates_and_keeps_what_the_site_has_set(program: Callable[..., Any]) -> None:
    assert program("cli", "deploy", "--pool", "local").status == 0
    with get_client(sync_client=True) as client:
        mine = client.read_deployment_by_name("pin-slice/local")
        cron = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 3 * * *"), active=True)
        client.create_deployment_schedules(mine.id, [cron])
        client.update_deployment(
            mine.id,
            DeploymentUpdate(
                concurrency_limit=1,
                paused=True,
                parameters={"name": "site"},
                tags=mine.tags,
                job_variables={},
                parameter_openapi_schema=mine.parameter_openapi_schema,
                entrypoint="elsewhere.flow",
            ),
        )
        client.request("PATCH", "/work_pools/{name}", path_params={"name": "local"}, json={"concurrency_limit": 5})
    done = program("cli", "deploy", "--pool", "local")
    assert (
        done.status == 0 and "exists, and stays as it is" in done.stdout and "pin-slice/local: updated" in done.stdout
    )
    with get_client(sync_client=True) as client:
        again = client.read_deployment_by_name("pin-slice/local")
        assert client.read_work_pool("local").concurrency_limit == 5
    assert again.id == mine.id and again.entrypoint == mine.entrypoint
    assert again.paused and again.parameters == {"name": "site"} and len(again.schedules) == 1
    assert again.global_concurrency_limit is not None and again.global_concurrency_limit.limit == 1
    assert len(deployed("local")) == len(declared("local"))


def test_a_cluster_profile_gives_the_slurm_pools_defaults(program: Callable[..., Any], tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    for partition in ("gpu", "long"):
        site.write_text(f"name: site\nslurm: {{partition: {partition}}}\n")
        done = program("cli", "deploy", "--pool", "slurm", "--cluster", site)
        assert done.status == 0, done.stderr
        assert program("cli", "deploy", "--pool", "slurm").status == 0  # without a profile, the pool keeps its own
        with get_client(sync_client=True) as client:
            template = client.read_work_pool("slurm").base_job_template
        assert template["variables"]["properties"]["partition"]["default"] == partition


class BusyServer:
    """A proxy that answers 503 to the first requests; the server behind it still executes half of them."""

    def __init__(self, behind: str, busy: int) -> None:
        self.behind, self.busy, self.port = behind.removesuffix("/api"), busy, free_port()
        self.url = f"http://127.0.0.1:{self.port}/api"

    def __enter__(self) -> "BusyServer":
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kept = {"content-type", "authorization"}
                headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
                outer.busy -= 1
                status, content = 503, b"busy"
                if outer.busy < 0 or outer.busy % 2:
                    answer = httpx.request(
                        self.command, outer.behind + self.path, content=body, headers=headers, timeout=60
                    )
                    status, content = (answer.status_code, answer.content) if outer.busy < 0 else (503, b"lost")
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_a_server_that_is_down_and_then_busy_is_waited_for(prefect_server: str) -> None:
    busy, reported = BusyServer(prefect_server, busy=4), []
    first, started = threading.Event(), threading.Event()

    def report(line: str) -> None:
        reported.append(line)
        first.set()

    def start_late() -> None:
        first.wait(60)
        busy.__enter__()
        started.set()

    thread = threading.Thread(target=start_late)
    thread.start()
    with temporary_settings({PREFECT_API_URL: busy.url}):
        deploy("local", report, seconds=120)
    thread.join()
    busy.__exit__()
    waits = [line for line in reported if "trying again" in line]
    assert "does not answer" in waits[0] and any("answers 503" in line for line in waits[1:])
    found = deployed("local")
    assert sorted(deployment.entrypoint for deployment in found) == sorted(declared("local"))


def test_a_server_that_stays_down_ends_in_a_sentence(program: Callable[..., Any]) -> None:
    url = f"http://127.0.0.1:{free_port()}/api"
    done = program("cli", "deploy", "--pool", "local", "--patience-seconds", "1", PREFECT_API_URL=url)
    assert done.status == 1 and "Traceback" not in done.stdout + done.stderr
    assert url in done.stderr and "start it, or correct PREFECT_API_URL" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "words"),
    [
        (["--pool", "local"], {"PREFECT_API_URL": ""}, 2, "PREFECT_API_URL is not set"),
        (["--pool", "local", "--cluster", "local"], {}, 2, "are for --pool slurm"),
        (["--pool", "slurm", "--cluster", "nowhere"], {}, 2, "'nowhere' is unknown"),
        (["--pool", "mine"], {}, 2, "--pool"),
    ],
)
def test_what_cannot_be_deployed_is_refused_in_words(
    program: Callable[..., Any], arguments: list[str], environment: dict[str, str], code: int, words: str
) -> None:
    done = program("cli", "deploy", *arguments, **environment)
    assert done.status == code and words in done.stderr and "Traceback" not in done.stderr


def test_a_pool_of_another_type_is_refused(prefect_server: str) -> None:
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="local", type="docker", base_job_template={}))
    with pytest.raises(PipelineError, match=r"is of type 'docker', not 'process'.*prefect work-pool delete local"):
        deploy("local", print)


def test_an_address_that_is_not_the_api_is_refused_at_once(prefect_server: str) -> None:
    with (
        temporary_settings({PREFECT_API_URL: prefect_server.removesuffix("/api") + "/nothing"}),
        pytest.raises(PipelineError, match="give an address that ends with /api"),
    ):
        deploy("local", print, seconds=600)
