"""A sample class of ours that stands in where Megatron-Bridge is not installed. Child processes only: imports torch.

``dataset.yaml`` names Megatron-Bridge's class, and the dataset on disk is the one that will be trained on. So the
stand-in is registered in this process under the very module name that ``dataset.yaml`` gives, and Energon opens the
dataset exactly as it will for training: nothing is copied, overlaid or rewritten.
"""

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from megatron.energon import Sample
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset import DefaultDecoderWebdatasetFactory
from webdataset.autodecode import Decoder, imagehandler

BRIDGE_MODULE = "megatron.bridge.data.energon.task_encoder_utils"
BRIDGE_CLASS = "ChatMLWebdataset"


@dataclass
class StandInSample(Sample):
    """A picture, float32 RGB of shape (3, height, width) in [0, 1], and its conversation as parsed JSON."""

    conversation: Any
    imgs: torch.Tensor | None = None


class StandInWebdataset(DefaultDecoderWebdatasetFactory[StandInSample]):
    """Decodes as Megatron-Bridge's class does: pictures to RGB tensors, the rest as webdataset does by itself."""

    __sample_type__ = StandInSample

    def __init__(self, path: EPath, **settings: Any) -> None:
        settings.pop("decoder", None)
        super().__init__(path, decoder=None, **settings)
        self._decoder = Decoder([imagehandler("torchrgb")])


def sample_class() -> str:
    """Make the class that ``dataset.yaml`` names importable, and tell which one it is.

    Raises ImportError if Megatron-Bridge is there but cannot be imported: nothing stands in for a broken one.
    """
    try:
        found = getattr(importlib.import_module(BRIDGE_MODULE), BRIDGE_CLASS)
    except ModuleNotFoundError as error:
        if not error.name or not BRIDGE_MODULE.startswith(error.name):
            raise
        found = StandInWebdataset
        module = ModuleType(BRIDGE_MODULE, "Stands in for Megatron-Bridge in this process.")
        setattr(module, BRIDGE_CLASS, found)
        sys.modules[BRIDGE_MODULE] = module
    return f"{found.__module__}.{found.__qualname__}"
