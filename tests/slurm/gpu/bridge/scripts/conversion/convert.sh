#!/usr/bin/env bash
# Stand-in for Megatron-Bridge's converter: strict arguments, one real Slurm job; stays until the job has ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 launcher.py convert "$@"
