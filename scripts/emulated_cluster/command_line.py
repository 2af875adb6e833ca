"""scripts/cluster: what a user types."""
import argparse
import dataclasses
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

from .daemons import Daemons, require_programs
from .hosts import SWITCH, Hosts
from .settings import CONTROLLER, ClusterError, Paths, Settings

DEFAULT_DIRECTORY = "/var/lib/muster-cluster"

EXIT_FAILED = 69


def parser():
    top = argparse.ArgumentParser(
        prog="scripts/cluster",
        description="A real multi-node Slurm on this one machine: its own daemons, each host in namespaces of its own.",
    )
    top.add_argument("--dir", default=os.environ.get("MUSTER_CLUSTER_DIR", DEFAULT_DIRECTORY),
                     help=f"where everything of the cluster lies (default $MUSTER_CLUSTER_DIR or {DEFAULT_DIRECTORY})")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start it")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--cpus", type=int, default=4, help="of each node, as Slurm is told (default 4)")
    up.add_argument("--memory-mb", type=int, default=4096, help="likewise")
    up.add_argument("--gpus", default="", metavar="TYPE:COUNT", help="declared, not there: a100:2")
    up.add_argument("--preemption", choices=["qos", "partition"], default="qos")
    up.add_argument("--grace-s", type=int, default=15, help="from a preemption's notice to the kill (default 15)")
    up.add_argument("--no-accounting", dest="accounting", action="store_false", help="without slurmdbd and MariaDB")
    up.add_argument("--select", choices=["cons_tres", "linear"], default="cons_tres")
    up.add_argument("--cred-expire-s", type=int, default=120, help="how long Slurm holds a requeued job (default 120)")
    up.add_argument("--slurmd-timeout-s", type=int, default=20, help="until a silent node is down (default 20)")
    up.add_argument("--no-job-requeue", dest="job_requeue", action="store_false", help="JobRequeue=0")
    up.add_argument("--visible", default="/", metavar="DIR", help="a directory in /tmp that all hosts shall see")
    commands.add_parser("down", help="end it and remove everything")
    commands.add_parser("status", help="hosts and nodes")
    run_on = commands.add_parser("exec", help="run a command on a host: exec ctl sinfo")
    run_on.add_argument("host")
    run_on.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD…")
    for name, text in {
        "cut": "pull the network cable of a host",
        "heal": "plug it in again",
        "kill": "cut the power of a host",
        "boot": "start a killed host and its daemons",
    }.items():
        commands.add_parser(name, help=text).add_argument("host")
    return top


class Cluster:
    def __init__(self, directory, settings=None):
        self.paths = Paths(pathlib.Path(directory).absolute())
        if settings is None:
            try:
                settings = Settings.from_json(self.paths.settings.read_text())
            except FileNotFoundError as absent:
                raise ClusterError(f"no cluster is up in {self.paths.root}; `scripts/cluster up` starts one") from absent
        self.settings = settings
        self.hosts = Hosts(self.settings, self.paths)
        self.daemons = Daemons(self.settings, self.paths, self.hosts)

    def up(self):
        self.daemons.write_configuration()
        self.paths.settings.write_text(self.settings.to_json())
        self.hosts.start_switch()
        self.daemons.start_munge()
        for host in self.settings.hosts():
            self.hosts.start(host)
        for node in self.settings.node_names():
            self.daemons.start_node(node)
        self._start_controller()
        self.daemons.wait_for_nodes()

    def _start_controller(self):
        if self.settings.accounting:
            self.daemons.start_database()
            self.daemons.start_accounting()
            self.daemons.add_accounts()
        self.daemons.start_controller()

    def down(self):
        for host in [*self.settings.hosts(), SWITCH]:
            self.hosts.kill(host)
        shutil.rmtree(self.paths.root)

    def boot(self, host):
        if self.hosts.pid(host) is not None:
            raise ClusterError(f"host {host} is running already")
        if host not in self.settings.hosts():
            raise ClusterError(f"no host {host}; hosts: {', '.join(self.settings.hosts())}")
        self.hosts.start(host)
        if host == CONTROLLER:
            self._start_controller()
        else:
            self.daemons.start_node(host)

    def kill(self, host):
        self.hosts.running_pid(host)
        self.hosts.kill(host)

    def status(self):
        for host, address in self.settings.hosts().items():
            pid = self.hosts.pid(host)
            state = "off" if pid is None else "cut" if self.hosts.is_cut(host) else "on"
            print(f"{host:<5} {address:<12} {state:<4} {pid or ''}".rstrip())
        if self.hosts.pid(CONTROLLER) is not None:
            print()
            sys.stdout.flush()
            subprocess.run(self.hosts.command(CONTROLLER, ["sinfo"]), check=False, timeout=60)


def _exclusively(directory):
    """A lock beside the directory: two `up` at a time would mix their clusters up."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = open(directory.parent / f".{directory.name}.lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as busy:
        raise ClusterError(f"another scripts/cluster is at work on {directory}") from busy
    return lock


def _up(arguments):
    names = [field.name for field in dataclasses.fields(Settings)]
    settings = Settings(**{name: getattr(arguments, name) for name in names})
    settings.check()
    cluster = Cluster(arguments.dir, settings)
    cluster.paths.check()
    require_programs()
    if cluster.paths.settings.exists():
        raise ClusterError(f"a cluster is up in {cluster.paths.root} already; `scripts/cluster down` ends it")
    try:
        cluster.up()
    except BaseException:
        logs = cluster.paths.root.with_name(cluster.paths.root.name + ".failed-logs")
        shutil.rmtree(logs, ignore_errors=True)
        shutil.copytree(cluster.paths.log, logs)
        print(f"scripts/cluster: logs are in {logs}", file=sys.stderr)
        cluster.down()
        raise


def _run(arguments):
    if os.geteuid() != 0:
        raise ClusterError("only root can make namespaces; use sudo")
    directory = pathlib.Path(arguments.dir).absolute()
    if arguments.command == "up":
        with _exclusively(directory):
            _up(arguments)
        return 0
    cluster = Cluster(directory)
    if arguments.command == "exec":
        if not arguments.words:
            raise ClusterError("exec needs a command: scripts/cluster exec ctl sinfo")
        words = cluster.hosts.command(arguments.host, arguments.words)
        os.execvp(words[0], words)
    if arguments.command == "status":
        cluster.status()
        return 0
    if arguments.command in ("cut", "heal"):
        getattr(cluster.hosts, arguments.command)(arguments.host)
        return 0
    with _exclusively(directory):
        if arguments.command == "down":
            cluster.down()
        else:
            getattr(cluster, arguments.command)(arguments.host)
    return 0


def main(words):
    try:
        return _run(parser().parse_args(words))
    except ClusterError as error:
        print(f"scripts/cluster: {error}", file=sys.stderr)
        return EXIT_FAILED
