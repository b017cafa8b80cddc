"""A stand-in for the DataComp repository: a script with the interface and the img2dataset call of the real one."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """
import argparse
from pathlib import Path

import cloudpathlib
import huggingface_hub
import img2dataset

from scale_configs import available_scales

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", choices=available_scales())
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--metadata_dir", type=Path)
    parser.add_argument("--processes_count", type=int, default=16)
    parser.add_argument("--thread_count", type=int, default=128)
    parser.add_argument("--image_size", type=int, default=512)
    parser.add_argument("--resize_mode", default="keep_ratio_largest")
    parser.add_argument("--no_resize_only_if_bigger", action="store_true")
    parser.add_argument("--encode_format", default="jpg")
    parser.add_argument("--output_format", default="webdataset")
    parser.add_argument("--retries", type=int, default=2)
    args = parser.parse_args()
    assert args.metadata_dir.exists()
    shards = args.data_dir / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    img2dataset.download(
        url_list=str(args.metadata_dir), input_format="parquet", url_col="url", caption_col="text",
        bbox_col="face_bboxes", save_additional_columns=["uid"],
        output_folder=str(shards), output_format=args.output_format,
        number_sample_per_shard=10000, oom_shard_count=8,
        processes_count=args.processes_count, thread_count=args.thread_count, retries=args.retries,
        image_size=args.image_size, resize_mode=args.resize_mode, encode_format=args.encode_format,
        resize_only_if_bigger=not args.no_resize_only_if_bigger,
    )
    print("Done!")
"""
SCALES = 'def available_scales():\n    return ["small", "datacomp_1b"]\n'


@dataclass(frozen=True)
class Upstream:
    """A repository and the commit to check out."""

    url: str
    commit: str


def make_upstream(folder: Path) -> Upstream:
    """Create a bare repository whose pinned commit is not its newest."""
    work, bare = folder / "work", folder / "datacomp.git"
    work.mkdir(parents=True)
    (work / "download_upstream.py").write_text(SCRIPT)
    (work / "scale_configs.py").write_text(SCALES)
    git(work, "init", "--quiet")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "pinned")
    commit = git(work, "rev-parse", "HEAD")
    (work / "download_upstream.py").write_text("raise SystemExit('too new')\n")
    git(work, "commit", "--quiet", "-am", "newer")
    git(folder, "clone", "--quiet", "--bare", str(work), str(bare))
    return Upstream(str(bare), commit)


def git(folder: Path, *arguments: str) -> str:
    """Run git with a fixed identity, independent of the user's configuration."""
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | dict.fromkeys(names, "test")
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()
