"""What a cluster is asked to be, and where everything of it lies. Pure."""
import dataclasses
import json
import pathlib
import re

CONTROLLER = "ctl"
SUBNET = "10.77.0"


class ClusterError(Exception):
    """Something that the user is told in one line."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The cluster as asked for; kept in its directory, so that `boot` makes a host as `up` did."""

    nodes: int = 4
    cpus: int = 4  # of each node, as Slurm is told
    memory_mb: int = 4096  # likewise
    gpus: str = ""  # of each node: "a100:2", or "" for none; declared, not there
    preemption: str = "qos"  # qos | partition
    grace_s: int = 15
    accounting: bool = True
    select: str = "cons_tres"  # cons_tres | linear
    cred_expire_s: int = 120  # how long a requeued job is held
    slurmd_timeout_s: int = 20  # until a silent node is declared down
    job_requeue: bool = True
    visible: str = "/"  # a directory in /tmp that hosts see although their /tmp is their own

    def check(self):
        """ClusterError if it cannot be."""
        if not 1 <= self.nodes <= 64:
            raise ClusterError(f"--nodes is {self.nodes}; allowed: 1 to 64")
        if self.gpus and not re.fullmatch(r"[A-Za-z0-9_]+:[1-9][0-9]{0,2}", self.gpus):
            raise ClusterError(f"--gpus is '{self.gpus}'; allowed: TYPE:COUNT, as in a100:2")
        if self.preemption == "qos" and not self.accounting:
            raise ClusterError("preemption by QOS needs accounting; allowed without it: --preemption partition")

    def node_names(self):
        return [f"n{index}" for index in range(1, self.nodes + 1)]

    def hosts(self):
        """Every host, with its address."""
        addresses = {CONTROLLER: f"{SUBNET}.10"}
        for index, name in enumerate(self.node_names(), start=1):
            addresses[name] = f"{SUBNET}.{10 + index}"
        return addresses

    def to_json(self):
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text):
        return Settings(**json.loads(text))


@dataclasses.dataclass(frozen=True)
class Paths:
    """One cluster's directory. It must not lie in /tmp or /dev/shm: each host has its own."""

    root: pathlib.Path

    def check(self):
        for private in ("/tmp", "/dev/shm", "/run"):
            if self.root.resolve().is_relative_to(private):
                raise ClusterError(f"the cluster's directory {self.root} must not lie in {private}")

    @property
    def settings(self):
        return self.root / "settings.json"

    @property
    def etc(self):  # /etc/slurm of every host
        return self.root / "etc"

    @property
    def hosts_table(self):
        return self.root / "hosts"

    @property
    def shared(self):  # for users: the file system that all hosts share
        return self.root / "shared"

    @property
    def gpus(self):  # device files that stand for GPUs
        return self.root / "gpus"

    @property
    def log(self):
        return self.root / "log"

    @property
    def state(self):  # of slurmctld
        return self.root / "state"

    @property
    def database(self):
        return self.root / "database"

    @property
    def munge(self):  # /run/munge of every host, where Slurm's commands look for the socket
        return self.root / "munge"

    @property
    def munge_socket(self):
        return self.munge / "munge.socket.2"

    def holder(self, host):  # pid and start time of a host's first process
        return self.root / "hosts.d" / f"{host}.json"
