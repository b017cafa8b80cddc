"""The Hugging Face hub: downloads, and the translation of its errors."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants, get_hf_file_metadata, get_token, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    # The base error of the HTTP client that the library uses, whichever client that is.
    HTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    XetDownloadError,
)
from huggingface_hub.utils import build_hf_headers, get_session

from tasks.contracts.certificates import is_untrusted, trusted_file
from tasks.contracts.errors import MetadataError, SettingsError, TransientError
from tasks.metadata.verify import describe_bytes

BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses after which a later request may succeed."""

HUB_ALTERNATIVE = "or put the pinned files into the metadata folder by hand: then no hub is needed"


@dataclass(frozen=True)
class Source:
    """Where pinned files come from: a dataset repository at a commit."""

    repo_id: str
    revision: str


@dataclass(frozen=True)
class FileInfo:
    """The hub's headers for a file: the commit that the revision names, its size in bytes, and its SHA-256.

    ``sha256`` is None for small files, for which the hub reports a Git hash instead.
    """

    commit: str
    bytes: int
    sha256: str | None


class HubBusyError(TransientError):
    """The hub is busy or limits the rate; ``retry_after`` is the wait in seconds that it asks for, if any."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def endpoint() -> str:
    """Return the hub's address: the current HF_ENDPOINT, else the library's default. Raises SettingsError."""
    url = (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"HF_ENDPOINT is {url!r}, which is no address of a hub; an example: http://host:8080")
    return url


def download(source: Source, name: str, folder: Path) -> Path:
    """Download one file into ``folder``, which must be empty: the library writes metadata of its own there.

    The library finds the token itself (HF_TOKEN or a login). With HF_HUB_DISABLE_XET=1 in the environment it uses
    plain HTTP. Raises HubBusyError or TransientError where waiting may help, MetadataError where it
    will not, and OSError if ``folder`` cannot be written.
    """
    hub = endpoint()
    try:
        # A forced download bypasses the library's shared cache and its retries, except those for status 429 and
        # for a connection that breaks during the body.
        return Path(
            hf_hub_download(
                source.repo_id,
                name,
                repo_type="dataset",
                revision=source.revision,
                local_dir=folder,
                endpoint=hub,
                force_download=True,
            )
        )
    except (HTTPError, OSError, ValueError, XetDownloadError) as error:
        raise _translate_error(_unwrap_error(error), hub, source, name) from None


def fetch_file_info(source: Source, name: str) -> FileInfo:
    """Fetch the hub's headers for a file; ``source.revision`` may be a branch or tag. Raises like ``download``."""
    hub = endpoint()
    try:
        url = hf_hub_url(source.repo_id, name, repo_type="dataset", revision=source.revision, endpoint=hub)
        metadata = get_hf_file_metadata(url, endpoint=hub)
    except (HTTPError, OSError, ValueError) as error:
        raise _translate_error(_unwrap_error(error), hub, source, name) from None
    if not metadata.commit_hash or not metadata.size:
        raise MetadataError(f"{hub} tells neither commit nor size of {name}; check HF_ENDPOINT")
    is_sha256 = bool(metadata.etag) and re.fullmatch("[0-9a-f]{64}", metadata.etag or "")
    return FileInfo(metadata.commit_hash, metadata.size, metadata.etag if is_sha256 else None)


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """Return the wait of a Retry-After header: a number of seconds or an HTTP date (RFC 9110, 10.2.3); else None."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


def _unwrap_error(error: BaseException) -> BaseException:
    """Return the cause if the library wrapped it in a bare ValueError, as it does before a forced download."""
    return error.__cause__ if type(error) is ValueError and error.__cause__ else error


def _translate_error(error: BaseException, hub: str, source: Source, name: str) -> BaseException:
    where = f"{name} of {source.repo_id} at {hub}"
    if isinstance(error, HfHubHTTPError):
        return _status_error(error, hub, source, name)
    if isinstance(error, OfflineModeIsEnabled):
        return MetadataError(f"cannot fetch {where}: HF_HUB_OFFLINE is set; unset it, {HUB_ALTERNATIVE}")
    if is_untrusted(str(error)):
        return MetadataError(
            f"cannot fetch {where}: its certificate is not trusted ({trusted_file()}). Set SSL_CERT_FILE to a file "
            f"that holds the authority of that hub or of this network's proxy, {HUB_ALTERNATIVE}"
        )
    if isinstance(error, OSError) and error.errno:
        return error
    if isinstance(error, ValueError):
        return MetadataError(f"cannot fetch {where}: {error}")
    if isinstance(error, HTTPError | XetDownloadError):
        return TransientError(
            f"cannot fetch {where}: {type(error).__name__}: {error}; "
            f"check the network, set HF_ENDPOINT to a hub that this machine reaches, {HUB_ALTERNATIVE}"
        )
    return _unexpected_response_error(error, hub, source, name)


def _status_error(error: HfHubHTTPError, hub: str, source: Source, name: str) -> Exception:
    status = error.response.status_code
    where = f"{hub} answered {status} for {name} of dataset {source.repo_id} at revision {source.revision}"
    if status in BUSY:
        wait = retry_after_seconds(error.response.headers.get("Retry-After"), datetime.now(UTC))
        return HubBusyError(f"{where}: it is busy or limits the rate", wait)
    if isinstance(error, RevisionNotFoundError):
        return MetadataError(f"{where}: the repository has no such revision; check `revision` in the slice")
    if isinstance(error, RemoteEntryNotFoundError):
        return MetadataError(f"{where}: the revision has no such file; check `files` in the slice")
    if isinstance(error, GatedRepoError):
        return MetadataError(f"{where}: access is gated; accept its terms on the hub, {_token_advice()}")
    if isinstance(error, RepositoryNotFoundError):
        return MetadataError(f"{where}: no such dataset, or a private one: check `repo_id`, {_token_advice()}")
    if status in (401, 403):
        return MetadataError(f"{where}: access is refused: {_token_advice()}")
    if status == 404:
        return MetadataError(f"{where}: it does not know this address; check the slice, and HF_ENDPOINT")
    return MetadataError(f"{where}: {error.server_message or 'no reason given'}; check the slice, and HF_ENDPOINT")


def _token_advice() -> str:
    """Return what to do about the token after a refusal; an expired one is refused even where none is needed."""
    if get_token() is None:
        return "set HF_TOKEN to a token that may read it"
    return (
        "set HF_TOKEN to a token that may read it; the one that was sent may have expired: if the dataset is public, "
        "unset HF_TOKEN or log out (`hf auth logout`), since it needs none"
    )


def _unexpected_response_error(error: BaseException, hub: str, source: Source, name: str) -> Exception:
    """Return an error for a response without a hub's headers or of the wrong size; inspect its first bytes."""
    url = hf_hub_url(source.repo_id, name, repo_type="dataset", revision=source.revision, endpoint=hub)
    head = _first_bytes(url)
    if head is not None and not head.startswith(b"PAR1"):
        return MetadataError(
            f"{url} does not answer with a Parquet file: {describe_bytes(head)}; "
            f"check HF_ENDPOINT and the proxy or sign-in page of this network, {HUB_ALTERNATIVE}"
        )
    reason = str(error).splitlines()[0]
    if isinstance(error, FileMetadataError):
        return MetadataError(f"{hub} does not answer as a hub does: {reason} Check HF_ENDPOINT, {HUB_ALTERNATIVE}")
    return TransientError(f"{url} did not send what it announced: {reason}")


def _first_bytes(url: str) -> bytes | None:
    """Return the first bytes of the response from ``url``, or None if there is no response or its status is not 200."""
    try:
        with get_session().stream("GET", url, headers=build_hf_headers(), timeout=10) as answer:
            return next(answer.iter_bytes(200), b"") if answer.status_code == 200 else None
    except HTTPError:
        return None
