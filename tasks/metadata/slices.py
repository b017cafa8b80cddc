"""Slices: the metadata files of a dataset revision, pinned by size, hash and row count."""

import re
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError, field_validator

from tasks.contracts.errors import SettingsError
from tasks.contracts.settings import ConvertSettings, DownloadSettings, GateSettings, Settings
from tasks.io.files import digest

_SHIPPED = resources.files("tasks.metadata") / "slices"

Given = TypeVar("Given", bound=Settings)


class SliceFile(Settings):
    """One pinned Parquet file."""

    name: str = Field(description="File name, without any folder.")
    rows: int = Field(ge=1, strict=True, description="Rows, which is the number of download attempts.")
    bytes: int = Field(ge=1, strict=True, description="Size in bytes.")
    sha256: str = Field(description="SHA-256 of the file, 64 lower-case hex digits.")

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.parquet", value):
            raise ValueError(f"{value!r} is not a plain file name that ends in .parquet")
        return value

    @field_validator("sha256")
    @classmethod
    def _check_sha256(cls, value: str) -> str:
        if not re.fullmatch("[0-9a-f]{64}", value):
            raise ValueError(f"{value!r} is not 64 lower-case hex digits")
        return value


class Slice(Settings):
    """A pinned set of metadata files, with default settings for them."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the slice.")
    repo_id: str = Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)?$", description="Dataset repository on the hub.")
    revision: str = Field(description="Commit of the repository, 40 lower-case hex digits.")
    files: tuple[SliceFile, ...] = Field(min_length=1, description="The pinned files.")
    downloader: Literal["official", "current"] = Field(
        "current", description="Downloader environment that `auto` means for this slice."
    )
    download: DownloadSettings = Field(DownloadSettings(), description="Download settings of this slice.")
    gate: GateSettings = Field(GateSettings(), description="Gates of this slice, apart from those that are derived.")
    convert: ConvertSettings = Field(ConvertSettings(), description="Conversion settings of this slice.")

    @field_validator("revision")
    @classmethod
    def _check_commit(cls, value: str) -> str:
        if not re.fullmatch("[0-9a-f]{40}", value):
            raise ValueError(
                f"{value!r} is not a commit of 40 lower-case hex digits; what a branch or tag names can change"
            )
        return value

    @field_validator("files")
    @classmethod
    def _sort_by_name(cls, files: tuple[SliceFile, ...]) -> tuple[SliceFile, ...]:
        names = [file.name for file in files]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"pinned more than once: {', '.join(repeated)}")
        return tuple(sorted(files, key=lambda file: file.name))

    @field_validator("gate")
    @classmethod
    def _reject_derived_gates(cls, gate: GateSettings) -> GateSettings:
        declared = sorted(gate.model_fields_set & {"expected_shards", "expected_attempts"})
        if declared:
            raise ValueError(f"{' and '.join(declared)} follow from the files; leave them out")
        return gate

    @property
    def expected_attempts(self) -> int:
        """Sum of the rows of all files: img2dataset attempts every URL once."""
        return sum(file.rows for file in self.files)

    def expected_shards(self, samples_per_shard: int) -> int:
        """Return the number of shards that img2dataset makes: each input file may end with a shorter shard."""
        return sum(-(-file.rows // samples_per_shard) for file in self.files)

    @property
    def metadata_sha256(self) -> str:
        """SHA-256 over the pins: identifies the metadata, independent of its source."""
        return digest([file.model_dump() for file in self.files])

    def download_settings(self, given: DownloadSettings) -> DownloadSettings:
        """Fill unset fields of ``given`` from the slice, including the downloader. Raises SettingsError."""
        filled = self._fill(given, self.download)
        return filled if filled.downloader != "auto" else filled.model_copy(update={"downloader": self.downloader})

    def gate_settings(self, given: GateSettings, samples_per_shard: int) -> GateSettings:
        """Fill unset fields of ``given`` from the slice or derive them from its files. Raises SettingsError."""
        derived = GateSettings(
            **_set_fields(self.gate),
            expected_shards=self.expected_shards(samples_per_shard),
            expected_attempts=self.expected_attempts,
        )
        return self._fill(given, derived)

    def convert_settings(self, given: ConvertSettings) -> ConvertSettings:
        """Fill unset fields of ``given`` from the slice, including the source. Raises SettingsError."""
        source = {"source_dataset": self.repo_id, "source_revision": self.revision}
        return self._fill(given, ConvertSettings.model_validate({**source, **_set_fields(self.convert)}))

    def _fill(self, given: Given, defaults: Settings) -> Given:
        try:
            return given.filled_from(_set_fields(defaults))
        except ValidationError as error:
            raise SettingsError(
                f"slice {self.name} and the given settings contradict: {describe_errors(error)}"
            ) from None


def shipped_slices() -> list[str]:
    """Return the names of the slices that ship with this project."""
    return sorted(Path(entry.name).stem for entry in _SHIPPED.iterdir() if entry.name.endswith(".yaml"))


def load_slice(name_or_path: str) -> Slice:
    """Load a shipped slice by name, or a slice file by path (one that contains "/" or ends in .yaml or .yml).

    Raises SettingsError for an unknown name, and with one sentence per field for an invalid file.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path).expanduser()
        return _parse(_read(path), str(path))
    if name_or_path not in shipped_slices():
        known = ", ".join(shipped_slices())
        raise SettingsError(
            f"there is no slice {name_or_path!r}; known slices: {known}; or give the path of a slice file (.yaml)"
        )
    return _parse((_SHIPPED / f"{name_or_path}.yaml").read_text("utf-8"), name_or_path)


def describe_errors(error: ValidationError) -> str:
    """Return what is wrong with each field, one sentence per field."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors(include_url=False)
    )


def _set_fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.model_fields_set}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the slice file {path}: {error}") from None


def _parse(text: str, origin: str) -> Slice:
    try:
        return Slice.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise SettingsError(f"slice {origin} cannot be used: {describe_errors(error)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"slice {origin} is not YAML: {' '.join(str(error).split())}") from None
