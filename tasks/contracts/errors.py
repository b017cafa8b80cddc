"""The errors that a user can meet. Each names what is wrong, where, and what to do."""


class PipelineError(Exception):
    """An error that a retry will not fix.

    The message is for people: it names the file, the key and the invalid value, and what to do. The error holds only
    this message, so that it survives pickling between Dask workers.
    """


class SettingsError(PipelineError):
    """A setting, or a combination of settings, that cannot be used."""


class BusyError(PipelineError):
    """Another process is working in the same folder."""


class MetadataError(PipelineError):
    """The metadata files differ from the pinned slice."""


class DownloadError(PipelineError):
    """The image download did not produce every expected shard."""


class ShardError(PipelineError):
    """A raw shard cannot be used."""


class GateError(PipelineError):
    """The data is valid, but does not meet the configured minimums."""


class PlanError(PipelineError):
    """The conversion cannot resume from the contents of its folders."""


class DatasetError(PipelineError):
    """The prepared dataset does not match its manifest."""


class TransientError(PipelineError):
    """A temporary error (network, a busy service): a retry may succeed."""
