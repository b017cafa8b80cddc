#!/usr/bin/env bash
# Stand-in for Megatron-Bridge's training launcher: strict arguments, one real Slurm job; returns once it is accepted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 launcher.py train "$@"
