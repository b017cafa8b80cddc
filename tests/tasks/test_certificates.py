"""Untrusted or unreadable certificates: an error with variable and file, and no second attempt."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.hub import Hub
from tasks.contracts.errors import DownloadError, MetadataError, TransientError
from tasks.images.environment import build_environment
from tasks.metadata import hub as module
from tests.slurm.tls import certificate, in_front_of
from tests.tasks.metadata.conftest import ServeHub, pins, serve
from tests.tasks.metadata.samples import NAMES, SOURCE

MAIN = "from cli.main import main; main()"
__all__ = ["pins", "serve"]


@pytest.fixture
def untrusted(serve: ServeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Hub]]:
    """A hub behind TLS with an untrusted certificate: its address, and the hub."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"):
        monkeypatch.delenv(name, raising=False)
    with serve() as hub, in_front_of(int(hub.url.rpartition(":")[2]), certificate(tmp_path)) as port:
        yield f"https://127.0.0.1:{port}", hub


def test_hub_with_an_untrusted_certificate_is_explained_and_not_retried(
    untrusted: tuple[str, Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", untrusted[0])
    with pytest.raises(MetadataError, match=r"certificate is not trusted \(SSL_CERT_FILE is not set; .*\.pem") as error:
        module.download(SOURCE, NAMES[0], tmp_path / "here")
    assert not isinstance(error.value, TransientError)
    assert "Set SSL_CERT_FILE to a file" in str(error.value)
    with pytest.raises(MetadataError, match="certificate is not trusted"):
        module.fetch_file_info(SOURCE, NAMES[0])


def test_index_with_an_untrusted_certificate_is_explained(
    untrusted: tuple[str, Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_FIND_LINKS", "UV_INDEX", "UV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{untrusted[0]}/simple")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(DownloadError, match="UV_SYSTEM_CERTS=true") as error:
        build_environment(tmp_path / "env")
    assert "SSL_CERT_FILE is not set" in str(error.value)
    assert "UV_DEFAULT_INDEX" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), (b"not a certificate", "it holds no certificates")]
)
@pytest.mark.parametrize(
    "command", [["-m", "flows.images", "--help"], ["-c", MAIN, "images", "--help"], ["-c", MAIN, "ui"]]
)
def test_unusable_certificate_file_is_a_sentence(
    tmp_path: Path, content: bytes | None, reason: str, command: list[str]
) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_bytes(content)
    environment = os.environ | {"SSL_CERT_FILE": str(file)}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: SSL_CERT_FILE is {file}, but that file cannot be used ({reason})")
    assert len(done.stderr.splitlines()) == 1
