"""The configuration files of the tests' Slurm."""

import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The nodes, limits and features of the cluster."""

    name: str = "lab"
    cpu_nodes: int = 2
    gpu_nodes: int = 2
    gpus: int = 8
    cpu_prefix: str = "c"
    gpu_prefix: str = "g"
    accounting: bool = False
    cgroups: bool = False
    min_job_age: int = 300  # seconds that slurmctld remembers a finished job

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes."""
        counts = {self.cpu_prefix: self.cpu_nodes, self.gpu_prefix: self.gpu_nodes}
        return [f"{prefix}{n + 1}" for prefix, count in counts.items() for n in range(count)]

    @property
    def cpu_range(self) -> str:
        """The CPU nodes as a Slurm range."""
        return f"{self.cpu_prefix}[1-{self.cpu_nodes}]"

    @property
    def gpu_range(self) -> str:
        """The GPU nodes as a Slurm range."""
        return f"{self.gpu_prefix}[1-{self.gpu_nodes}]"

    @property
    def port_count(self) -> int:
        """Number of ports: slurmctld, slurmdbd, its database, one for each node, and a range for srun."""
        return 3 + len(self.nodes) + 60


def slurm_conf(layout: Layout, folder: Path, ports: list[int]) -> str:
    """Return slurm.conf: several nodes on one host, loopback only, quick to schedule and to notice a dead node."""
    host = socket.gethostname().partition(".")[0]
    nodes = ports[3 : 3 + len(layout.nodes)]
    cpu, gpu = nodes[: layout.cpu_nodes], nodes[layout.cpu_nodes :]
    process = ("proctrack/cgroup", "task/cgroup", "jobacct_gather/cgroup")
    track, task, gather = process if layout.cgroups else ("proctrack/linuxproc", "task/none", "jobacct_gather/linux")
    lines = [
        f"ClusterName={layout.name}",
        f"SlurmctldHost={host}(127.0.0.1)",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        # A requeued job waits until its old credential expires: 121 s by default.
        f"AuthInfo=socket={folder}/munge/socket,cred_expire=5",
        "CredType=cred/munge",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        f"SlurmctldPort={ports[0]}",
        f"SlurmdPort={nodes[0]}",
        f"SrunPortRange={ports[-60]}-{ports[-1]}",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/run/slurmctld.pid",
        f"SlurmdPidFile={folder}/run/slurmd-%n.pid",
        f"SlurmctldLogFile={folder}/log/slurmctld.log",
        f"SlurmdLogFile={folder}/log/slurmd-%n.log",
        f"ProctrackType={track}",
        f"TaskPlugin={task}",
        f"JobAcctGatherType={gather}",
        "JobAcctGatherFrequency=task=1",
        "MpiDefault=none",
        *_accounting_lines(layout, folder, ports),
        # Nodes that claim more resources than this host has.
        "SlurmdParameters=config_overrides",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=1000",
        "GresTypes=gpu",
        "ReturnToService=2",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
        f"MinJobAge={layout.min_job_age}",
        "KillWait=2",
        "SlurmdTimeout=5",
        "SlurmctldTimeout=10",
        "CompleteWait=0",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        f"NodeName={layout.cpu_range} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{cpu[0]}-{cpu[-1]}]"
        " CPUs=64 RealMemory=256000 Feature=cpu,icelake",
        f"NodeName={layout.gpu_range} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{gpu[0]}-{gpu[-1]}]"
        f" CPUs=96 RealMemory=1000000 Gres=gpu:h100:{layout.gpus} Feature=gpu,h100",
        f"PartitionName=cpu Nodes={layout.cpu_range} Default=YES MaxTime=1-0 DefaultTime=1:00:00 PriorityTier=10",
        f"PartitionName=low Nodes={layout.cpu_range} MaxTime=1-0 DefaultTime=1:00:00 PriorityTier=1",
        f"PartitionName=lost Nodes={layout.cpu_range} MaxTime=1-0 PriorityTier=1 PreemptMode=CANCEL",
        f"PartitionName=brief Nodes={layout.cpu_range} DefaultTime=2 MaxTime=1-0 PriorityTier=10",
        f"PartitionName=gpu Nodes={layout.gpu_range} MaxTime=1-0 DefaultTime=1:00:00 PriorityTier=10",
    ]
    return "\n".join(lines) + "\n"


def _accounting_lines(layout: Layout, folder: Path, ports: list[int]) -> list[str]:
    if not layout.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports[1]}",
        f"AccountingStoragePass={folder}/munge/socket",
        "AccountingStorageTRES=gres/gpu,gres/gpu:h100",
        "AccountingStoreFlags=job_comment,job_script,job_env",
        "AccountingStorageEnforce=associations,limits,qos",
    ]


def gres_conf(layout: Layout, folder: Path) -> str:
    """Return gres.conf: stand-in GPUs."""
    return f"NodeName={layout.gpu_range} Name=gpu Type=h100 File={folder}/gpu/nvidia[0-{layout.gpus - 1}]\n"


def database_conf(folder: Path, ports: list[int]) -> str:
    """Return slurmdbd.conf: a MariaDB on its own socket."""
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder}/munge/socket",
        f"DbdHost={socket.gethostname().partition('.')[0]}",
        "DbdAddr=127.0.0.1",
        "CommunicationParameters=NoInAddrAny",
        f"DbdPort={ports[1]}",
        "SlurmUser=root",
        f"LogFile={folder}/log/slurmdbd.log",
        f"PidFile={folder}/run/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageHost=127.0.0.1",
        f"StoragePort={ports[2]}",
        "StorageUser=slurm",
        "StoragePass=slurm",
        "StorageLoc=slurm",
    ]
    return "\n".join(lines) + "\n"
