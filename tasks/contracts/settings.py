"""The settings of the data pipeline, declared once for the UI form, the command line and the docs."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tasks.contracts.layout import GivenPath
from tasks.contracts.plain_text import HubName, Revision


class Settings(BaseModel):
    """Base of all settings: frozen, an unknown name is an error, and errors do not show what may be a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema for the UI's form. The form shows only descriptions, so append the limits to them."""
        schema = handler(core)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if limits := _limits(field):
                field["description"] = f"{field.get('description', '')} {limits}."
        return schema

    def filled_from(self, defaults: dict[str, Any]) -> Self:
        """Return a copy in which fields that the caller did not set take their value from ``defaults``.

        A form of the Prefect UI sends every field of a group, including the untouched ones with their shown values.
        So if every field is set, fields that equal their own default count as not set.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        fields = type(self).model_fields
        if given.keys() == fields.keys():
            given = {name: value for name, value in given.items() if value != fields[name].default}
        return type(self).model_validate({**defaults, **given})


_SIGNS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def _limits(field: dict[str, Any]) -> str:
    """Return the limits in a field's JSON schema, or in those of its alternatives, in words."""
    branches = [field, *field.get("anyOf", ())]
    limits = [f"{words} {one[sign]:g}" for one in branches for sign, words in _SIGNS.items() if sign in one]
    return ", ".join(limits).capitalize()


PLAN_IN_MEMORY = 50_000_000
"""Most samples for which a plan searches for duplicates in memory."""

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


Share = Annotated[float, Field(ge=0, le=1)]
Finding = Literal[
    "url_not_http",
    "host_loopback",
    "host_private",
    "boxes_null",
    "box_never_blurred",
    "box_broken",
    "box_over_the_edge",
    "text_not_utf8",
    "caption_missing",
    "caption_blank",
]
"""Findings in the metadata; tasks/metadata/look.py explains each."""


class TroubleSettings(Settings):
    """When a running download is in trouble: from one threshold on it warns, from the other on it stops.

    Shares are of the attempts in the shards that were finished last, once ``attempts`` of them are there.
    """

    attempts: Positive = Field(10_000, description="Attempts that a verdict needs; the latest ones count.")
    success_warn: Share = Field(0.8, description="Warn below this share of the slice's expected success rate.")
    success_stop: Share = Field(0.5, description="Stop below this share of the slice's expected success rate.")
    decoding_warn: Share = Field(0.1, description="Warn if this share of attempts came, but could not be decoded.")
    decoding_stop: Share = Field(0.5, description="Stop if this share of attempts came, but could not be decoded.")
    name_resolution_warn: Share = Field(0.3, description="Warn if host names of this share of attempts are unknown.")
    name_resolution_stop: Share = Field(0.6, description="Stop if host names of this share of attempts are unknown.")
    free_gb_warn: float = Field(10.0, ge=0, description="Warn below this much free space for the shards, in GB.")
    free_gb_stop: float = Field(1.0, ge=0, description="Stop below this much free space for the shards, in GB.")


class DownloadSettings(Settings):
    """How img2dataset fetches the images; the defaults are the tutorial's."""

    downloader: Literal["auto", "official", "current"] = Field(
        "auto",
        description="official: DataComp's script and pins; current: a newer img2dataset; auto: what the slice says.",
    )
    environment: GivenPath | None = Field(
        None,
        description="Folder of the downloader environment, built if missing; null: inside the data root.",
    )
    python: str | None = Field(
        None,
        description="Python for the downloader environment: a path or a version; null: 3.10 (official) or our own.",
    )
    upstream_url: str = Field(
        "https://github.com/mlfoundations/datacomp.git",
        description="Where the official downloader is cloned from; a local mirror or bare repository will do.",
    )
    upstream_commit: str = Field(
        "4a8df1992566ef8334773f7152e1855b1f716162",
        pattern="^[0-9a-f]{40}$",
        description="Commit of the official downloader; verified before every run.",
    )
    processes_count: Positive = Field(16, description="Downloader processes.")
    thread_count: Positive = Field(128, description="Download threads in each process.")
    image_size: int = Field(512, ge=16, le=8192, description="Longest side of a stored image, in pixels.")
    resize_mode: Literal["keep_ratio_largest", "keep_ratio", "center_crop", "border", "no"] = Field(
        "keep_ratio_largest", description="How img2dataset resizes."
    )
    resize_only_if_bigger: bool = Field(True, description="Leave images alone that are smaller than image_size.")
    encode_format: Literal["jpg"] = Field("jpg", description="Format of stored images; conversion needs jpg.")
    encode_quality: int = Field(95, ge=1, le=100, description="JPEG quality of stored images.")
    retries: Count = Field(2, description="Further attempts after a failed one, per URL.")
    timeout: Positive = Field(10, description="Seconds that one socket operation may take.")
    number_sample_per_shard: Positive = Field(10_000, description="Attempts in each shard.")
    blur_faces: bool = Field(True, description="Blur the boxes that face_bboxes names.")
    oom_shard_count: int = Field(8, ge=5, le=10, description="Digits in a shard's name.")
    user_agent_token: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="Token added to img2dataset's user agent; opt-out headers may name it.",
    )
    response_timeout: Positive = Field(
        60, description="Seconds that one whole answer may take, name lookups and redirects included."
    )
    response_megabytes: Positive = Field(50, description="Largest answer that is read, in MB.")
    stall_timeout: Positive = Field(
        600, description="Seconds without a new shard or byte after which the downloader is ended and resumed."
    )
    stall_restarts: Count = Field(5, description="Restarts in a row that may pass without a new shard.")
    expected_success_rate: Share | None = Field(
        None, description="Share of attempts that should succeed; null: not watched."
    )
    trouble: TroubleSettings = Field(TroubleSettings(), description="When a running download warns and stops.")
    accepted_findings: tuple[Finding, ...] = Field(
        (), description="What may be found in the metadata without stopping the download."
    )
    allow_private_hosts: bool = Field(
        False,
        description="Connect to loopback, private and link-local addresses too; else such a URL or redirect fails.",
    )

    @model_validator(mode="after")
    def _slow_servers_are_no_stall(self) -> Self:
        longest = (self.retries + 1) * self.response_timeout
        if self.stall_timeout <= longest:
            raise ValueError(
                f"stall_timeout ({self.stall_timeout} s) must be longer than one URL may take: (retries + 1) x "
                f"response_timeout = {longest} s; raise the first or lower the others"
            )
        return self


class GateSettings(Settings):
    """What the downloaded shards must add up to; null means unchecked."""

    expected_shards: Count | None = Field(None, description="Exact number of completed shards.")
    expected_attempts: Count | None = Field(None, description="Exact number of attempted URLs, over all shards.")
    minimum_successes: Count | None = Field(None, description="Least number of successful downloads.")


class ConvertSettings(Settings):
    """How raw samples become training samples."""

    prompt: str = Field("Describe this image.", description="Text of the user turn, after the image.")
    max_samples_per_tar: Positive = Field(10_000, description="Samples in each output tar.")
    validation_fraction: float = Field(
        0.01, ge=0, lt=1, description="Share of samples that go to the val split, chosen by uid."
    )
    minimum_train_samples: Count = Field(
        0, description="Fewer train samples than this fail the conversion; its tars are kept, not indexed."
    )
    maximum_samples: Positive | None = Field(None, description="Stop after this many samples; null: take all.")
    source_dataset: str = Field(
        "mlfoundations/datacomp_1b", description="Hub repository of the metadata, noted in every sample."
    )
    source_revision: str = Field(
        "086ebeee20d4cc3b3e7c05ae703fcf278ae3a759", description="Its revision, noted in every sample."
    )
    exclude_uids: GivenPath | None = Field(
        None, description="File with one uid a line that must not enter the dataset (takedowns, opt-outs)."
    )

    drop_chat_markers: bool = Field(
        False, description="Leave out samples whose caption holds a chat marker, such as <|im_end|> or <image>."
    )
    drop_extreme_aspect_ratios: bool = Field(
        False, description="Leave out pictures with a side over 200 times the other, which Qwen's processors refuse."
    )

    accept_cut_tars: bool = Field(
        False,
        description="Convert what can be read of tars that end early, go on after their end, or hold fewer samples "
        "than their stats count; manifest and report name them. Damaged tars stay errors.",
    )

    @field_validator("prompt")
    @classmethod
    def _prompt_says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the prompt is blank; give the text that the user turn should hold")
        return value

    @field_validator("prompt", "source_dataset", "source_revision")
    @classmethod
    def _can_be_written(cls, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("the text holds characters that cannot be written as UTF-8") from None
        return value

    @model_validator(mode="after")
    def _enough_samples_are_possible(self) -> Self:
        if self.maximum_samples is not None and self.maximum_samples < self.minimum_train_samples:
            raise ValueError(
                f"maximum_samples ({self.maximum_samples}) is below minimum_train_samples "
                f"({self.minimum_train_samples}): no conversion could pass; raise the first or lower the second"
            )
        return self


class CheckSettings(Settings):
    """How the prepared dataset is checked."""

    batch_size: Positive = Field(16, description="Samples that the loader yields at a time.")
    loaders: Positive | None = Field(
        None, description="Processes that load a split, 500 samples each at least; null: one a CPU, at most 8."
    )
    verify: Literal["changed", "full"] = Field(
        "changed", description="changed: trust noted hashes of unchanged files; full: hash every tar again."
    )
    processor: HubName | None = Field(
        None,
        description="Qwen VL processor that batches of both splits go through: a folder (absolute path) or a model of "
        "the hub; needs the extra `processor`. null: none.",
    )
    processor_revision: Revision | None = Field(
        None, description="Commit of the processor on the hub; null: its newest, or a folder."
    )
    processor_batches: Positive = Field(8, description="Batches of each split that go through the processor.")
    processor_batch_size: Positive = Field(
        1, description="Samples in each of them: the micro batch size of the training."
    )


class ReportSettings(Settings):
    """How much of a dataset its report shows; tables are always read in full."""

    contact_sheet: Count = Field(144, description="Samples on the contact sheet, a quarter of them val.")
    reject_sheet: Count = Field(48, description="Rejected samples that are shown, every reason in like number.")
    pictures_looked_at: Count = Field(
        1000, description="Pictures, chosen by chance, that are searched for grey, uniform and banded ones."
    )
    seed: Count = Field(0, description="Which samples chance takes; the same seed takes the same ones.")
