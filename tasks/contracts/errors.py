"""The errors a user can meet: each one names what is wrong, where, and the way out."""


class PipelineError(Exception):
    """A fault that repeating the same work will not mend.

    The message is a sentence for a person: it names the file, the key and the value at fault and says
    what to do. Only the message is kept, so that the error survives pickling between Dask workers.
    """


class SettingsError(PipelineError):
    """A setting, or a combination of settings, that cannot be used."""


class BusyError(PipelineError):
    """Somebody else is at work in the same folder."""


class MetadataError(PipelineError):
    """The metadata files are not the pinned slice."""


class DownloadError(PipelineError):
    """The image download did not produce every expected shard."""


class ShardError(PipelineError):
    """A raw shard cannot be used as it is."""


class GateError(PipelineError):
    """The data is sound, but does not meet what was asked of it."""


class PlanError(PipelineError):
    """The conversion cannot go on with what lies in its folders."""


class DatasetError(PipelineError):
    """The prepared dataset is not what its manifest says."""


class TransientError(PipelineError):
    """A fault of the moment (network, a busy service): the same work may well succeed later."""
