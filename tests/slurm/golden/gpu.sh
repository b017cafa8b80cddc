#!/bin/bash
#SBATCH --account=vision
#SBATCH --chdir=/shared/jobs/1234/1
#SBATCH --comment=prefect:1234:1
#SBATCH --constraint="h100&ib"
#SBATCH --cpus-per-task=96
#SBATCH --exclusive
#SBATCH --gpus-per-node=h100:8
#SBATCH --job-name=nap-17
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ops@example.org
#SBATCH --mem=0
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output=/shared/jobs/1234/1/job.log
#SBATCH --partition=gpu
#SBATCH --qos=long
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --time=2-00:00:00

# Written by datacomp-energon: one attempt of one Prefect flow run.
job_folder=/shared/jobs/1234/1
signal=
child=

# Bytes that the job used at most on this node, where control groups (version 1; 2 since Linux 5.19) count them.
memory_peak() {
    local kinds path file
    while IFS=: read -r _ kinds path; do
        path=${path%%/step_*}
        case ",$kinds," in
            *,memory,*) file=/sys/fs/cgroup/memory$path/memory.max_usage_in_bytes ;;
            ,,) file=/sys/fs/cgroup$path/memory.peak ;;
            *) continue ;;
        esac
        [ "${path##*/job_}" = "$SLURM_JOB_ID" ] && cat "$file" 2>/dev/null && return
    done </proc/self/cgroup
    echo 0
}

leave_receipt() {
    local code=$?
    printf '{"elapsed": %d, "exit_code": %d, "job_id": %d, "memory_peak": %d, "node": "%s", "restarts": %d, "signal": "%s"}\n' \
        "$SECONDS" "$code" "$SLURM_JOB_ID" "$(memory_peak)" "${SLURMD_NODENAME:-}" "${SLURM_RESTART_COUNT:-0}" "$signal" \
        >"$job_folder/receipt.partial"
    mv "$job_folder/receipt.partial" "$job_folder/receipt.json"
}

# The flow gets SIGTERM whatever came: SIGTERM from scancel or preemption, SIGUSR1 ahead of the time limit.
give_way() {
    signal=$1
    echo "The job got SIG$1, and passes SIGTERM on to the flow." >&2
    [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}

trap leave_receipt EXIT
trap 'give_way TERM' TERM
trap 'give_way USR1' USR1

export PATH=/shared/venv/bin:"$PATH"
. /shared/jobs/1234/1/environment
type module >/dev/null 2>&1 || . /etc/profile
module load cuda/12.4 gcc
ulimit -n 65536

# Since 22.05 srun asks for the CPUs of a task itself.
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"

[ -z "$signal" ] || exit 143
# Job control: otherwise a background process ignores SIGINT, which Prefect uses.
set -m
prefect flow-run execute &
child=$!
[ -z "$signal" ] || kill -TERM "$child"
while :; do
    # Without the shell's own line on it, "[1]+ Terminated": the last line names the signal.
    wait "$child" 2>/dev/null
    code=$?
    kill -0 "$child" 2>/dev/null || break
done
[ "$code" -le 128 ] || echo "The flow's process was ended by SIG$(kill -l "$code")." >&2
exit "$code"
