"""Sample class for machines without Megatron-Bridge. Imports torch: for child processes only.

``dataset.yaml`` names Megatron-Bridge's class, and the check must not change the dataset. This module registers a
replacement under that name in this process, so that Energon opens the dataset exactly as for training.
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
    """An image, float32 RGB of shape (3, height, width) in [0, 1], and its conversation as parsed JSON."""

    conversation: Any
    imgs: torch.Tensor | None = None


class StandInWebdataset(DefaultDecoderWebdatasetFactory[StandInSample]):
    """Dataset that decodes as Megatron-Bridge's class does: images to RGB tensors, the rest by WebDataset."""

    __sample_type__ = StandInSample

    def __init__(self, path: EPath, **settings: Any) -> None:
        settings.pop("decoder", None)
        super().__init__(path, decoder=None, **settings)
        self._decoder = Decoder([imagehandler("torchrgb")])


def sample_class() -> str:
    """Make the class that ``dataset.yaml`` names importable, and return its name.

    Raises ImportError if Megatron-Bridge is installed but broken: the stand-in replaces only a missing one.
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
