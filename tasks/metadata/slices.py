"""Slices: which metadata files of which revision make a dataset, pinned by size, hash and row count."""

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
    def _is_a_plain_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.parquet", value):
            raise ValueError(f"{value!r} is not a plain file name that ends in .parquet")
        return value

    @field_validator("sha256")
    @classmethod
    def _is_a_sha256(cls, value: str) -> str:
        if not re.fullmatch("[0-9a-f]{64}", value):
            raise ValueError(f"{value!r} is not 64 lower-case hex digits")
        return value


class Slice(Settings):
    """A pinned set of metadata files, and the settings that suit it where a caller gives none."""

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
    def _is_a_commit(cls, value: str) -> str:
        if not re.fullmatch("[0-9a-f]{40}", value):
            raise ValueError(
                f"{value!r} is not a commit of 40 lower-case hex digits; what a branch or tag names can change"
            )
        return value

    @field_validator("files")
    @classmethod
    def _in_the_downloader_s_order(cls, files: tuple[SliceFile, ...]) -> tuple[SliceFile, ...]:
        names = [file.name for file in files]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"pinned more than once: {', '.join(twice)}")
        return tuple(sorted(files, key=lambda file: file.name))

    @field_validator("gate")
    @classmethod
    def _declares_nothing_derived(cls, gate: GateSettings) -> GateSettings:
        declared = sorted(gate.model_fields_set & {"expected_shards", "expected_attempts"})
        if declared:
            raise ValueError(f"{' and '.join(declared)} follow from the files; leave them out")
        return gate

    @property
    def expected_attempts(self) -> int:
        """Rows of all files: img2dataset attempts every URL once."""
        return sum(file.rows for file in self.files)

    def expected_shards(self, samples_per_shard: int) -> int:
        """Shards that img2dataset makes: it cuts each input file by itself, so each may end in a short shard."""
        return sum(-(-file.rows // samples_per_shard) for file in self.files)

    @property
    def metadata_sha256(self) -> str:
        """SHA-256 over the pins: the identity of the metadata, wherever it was fetched from."""
        return digest([file.model_dump() for file in self.files])

    def download_settings(self, given: DownloadSettings) -> DownloadSettings:
        """``given``, with what it leaves out, the downloader included, taken from the slice. Raises SettingsError."""
        filled = self._filled(given, self.download)
        return filled if filled.downloader != "auto" else filled.model_copy(update={"downloader": self.downloader})

    def gate_settings(self, given: GateSettings, samples_per_shard: int) -> GateSettings:
        """``given``, with what it leaves out taken from the slice or derived from its files. Raises SettingsError."""
        derived = GateSettings(
            **_declared(self.gate),
            expected_shards=self.expected_shards(samples_per_shard),
            expected_attempts=self.expected_attempts,
        )
        return self._filled(given, derived)

    def convert_settings(self, given: ConvertSettings) -> ConvertSettings:
        """``given``, with what it leaves out, source included, taken from the slice. Raises SettingsError."""
        source = {"source_dataset": self.repo_id, "source_revision": self.revision}
        return self._filled(given, ConvertSettings.model_validate({**source, **_declared(self.convert)}))

    def _filled(self, given: Given, defaults: Settings) -> Given:
        try:
            return given.filled_from(_declared(defaults))
        except ValidationError as error:
            raise SettingsError(f"slice {self.name} and the given settings contradict: {sentences(error)}") from None


def shipped_slices() -> list[str]:
    """Names of the slices that come with this project."""
    return sorted(Path(entry.name).stem for entry in _SHIPPED.iterdir() if entry.name.endswith(".yaml"))


def load_slice(name_or_path: str) -> Slice:
    """A shipped slice by its name, or the slice in a YAML file (a path has a "/" in it or ends in .yaml).

    Raises SettingsError for an unknown name, and with one sentence a field for a file that is no slice.
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


def sentences(error: ValidationError) -> str:
    """What is wrong with each field, one sentence a field."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors(include_url=False)
    )


def _declared(settings: Settings) -> dict[str, Any]:
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
        raise SettingsError(f"slice {origin} cannot be used: {sentences(error)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"slice {origin} is not YAML: {' '.join(str(error).split())}") from None
