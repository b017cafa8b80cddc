"""Stand-in for Bridge's conversion program: one process for each GPU; the first writes the checkpoint."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import behaviour


def main() -> None:
    """Parse strictly, then behave as the test chose."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["import"])
    parser.add_argument("--device", choices=["gpu"], required=True)
    for name in ("--hf-model", "--hf-revision", "--megatron-path", "--torch-dtype"):
        parser.add_argument(name, required=True)
    for name in ("--tp", "--pp", "--ep", "--etp"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()
    behaviour.act("import")
    if os.environ["SLURM_PROCID"] == "0":
        folder = Path(options.megatron_path)
        behaviour.save(folder, 0)
        print(f"  successfully saved checkpoint from iteration       0 to {folder}", flush=True)


if __name__ == "__main__":
    main()
