"""The configuration files of the cluster's daemons. Pure: settings and paths in, texts out."""
from .settings import CONTROLLER

PRIORITIES = ("low", "normal", "high")
# In partition-priority preemption each class is a partition; in QOS preemption each is a QOS.
PRIORITY_TIER = {"low": 1, "normal": 5, "high": 10}


def slurm_conf(settings, paths):
    lines = [
        "ClusterName=emulated",
        f"SlurmctldHost={CONTROLLER}({settings.hosts()[CONTROLLER]})",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=cred_expire={settings.cred_expire_s}",
        f"StateSaveLocation={paths.state}",
        f"SlurmdSpoolDir={paths.root}/spool/%n",
        f"SlurmctldPidFile={paths.root}/run/slurmctld.pid",
        f"SlurmdPidFile={paths.root}/run/slurmd.%n.pid",
        f"SlurmctldLogFile={paths.log}/slurmctld.log",
        f"SlurmdLogFile={paths.log}/slurmd.%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "MpiDefault=pmix",
        "ReturnToService=2",
        f"JobRequeue={int(settings.job_requeue)}",
        f"SlurmdTimeout={settings.slurmd_timeout_s}",
        "SlurmctldTimeout=30",
        "MessageTimeout=10",
        "KillWait=5",
        "InactiveLimit=0",
        "MinJobAge=300",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=2,sched_interval=2",
        "PriorityType=priority/multifactor",
        "PriorityWeightQOS=10000",
        "PriorityWeightPartition=10000",
        "SlurmdParameters=config_overrides",
        f"SelectType=select/{settings.select}",
    ]
    if settings.select == "cons_tres":
        lines.append("SelectTypeParameters=CR_CPU_Memory")
        lines.append("DefMemPerCPU=64")
    lines += _preemption(settings) + _accounting(settings) + _nodes(settings)
    return "\n".join(lines) + "\n"


def _preemption(settings):
    if settings.preemption == "partition":
        return ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    return ["PreemptType=preempt/qos", "PreemptMode=REQUEUE"]


def _accounting(settings):
    if not settings.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={CONTROLLER}",
        "AccountingStorageEnforce=associations,limits,qos",
        *(["AccountingStorageTRES=gres/gpu"] if settings.gpus else []),
    ]


def _nodes(settings):
    names = f"n[1-{settings.nodes}]"
    addresses = ",".join(settings.hosts()[name] for name in settings.node_names())
    gres = f" Gres=gpu:{settings.gpus}" if settings.gpus else ""
    lines = ["GresTypes=gpu"] if settings.gpus else []
    lines.append(
        f"NodeName={names} NodeAddr={addresses} CPUs={settings.cpus} Boards=1 SocketsPerBoard=1"
        f" CoresPerSocket={settings.cpus} ThreadsPerCore=1 RealMemory={settings.memory_mb}{gres} State=UNKNOWN"
    )
    if settings.preemption == "partition":
        for name in PRIORITIES:
            lines.append(
                f"PartitionName={name} Nodes={names} MaxTime=INFINITE State=UP PriorityTier={PRIORITY_TIER[name]}"
                f" PreemptMode=REQUEUE GraceTime={settings.grace_s}{' Default=YES' if name == 'normal' else ''}"
            )
    else:
        lines.append(f"PartitionName=batch Nodes={names} Default=YES MaxTime=INFINITE State=UP")
    return lines


def gres_conf(settings, paths):
    if not settings.gpus:
        return ""
    # A GPU without a device file counts for nothing: slurmd reports none, and the node is drained.
    kind, count = settings.gpus.split(":")
    return f"NodeName=n[1-{settings.nodes}] Name=gpu Type={kind} File={paths.gpus}/gpu[0-{int(count) - 1}]\n"


# With cgroup/v1 and an empty /sys/fs/cgroup no cgroup is touched: the machine's may be hybrid or not ours.
CGROUP_CONF = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


def slurmdbd_conf(paths):
    return "\n".join(
        [
            f"DbdHost={CONTROLLER}",
            "SlurmUser=root",
            "AuthType=auth/munge",
            f"LogFile={paths.log}/slurmdbd.log",
            f"PidFile={paths.root}/run/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            "StorageUser=root",
            "StorageLoc=slurm_acct",
            "",
        ]
    )


def hosts_table(settings):
    return "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in settings.hosts().items())


def qos_commands(settings):
    """What sacctmgr is told once the database is new; each a list of words."""
    commands = [["add", "account", "research", "Description=emulated", "Organization=emulated"]]
    if settings.preemption == "qos":
        lower = []
        for name in PRIORITIES:
            if name != "normal":  # a new database has that one
                commands.append(["add", "qos", name])
            values = [f"Priority={PRIORITY_TIER[name] * 100}", f"GraceTime={settings.grace_s}", "PreemptMode=requeue"]
            if lower:
                values.append("Preempt=" + ",".join(lower))
            commands.append(["modify", "qos", name, "set", *values])
            lower.append(name)
        allowed = ["QOS=" + ",".join(PRIORITIES), "DefaultQOS=normal"]
    else:
        allowed = []
    commands.append(["add", "user", "root", "Account=research", "DefaultAccount=research"])
    # Root belongs to the account "root" from the beginning; its default account is ours now.
    if allowed:
        commands.append(["modify", "user", "root", "set", *allowed])
    return commands
