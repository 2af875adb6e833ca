"""The daemons of the cluster: munged, MariaDB, slurmdbd, slurmctld and a slurmd a node. All write into the
cluster's directory only, and die with their host."""
import os
import re
import stat
import subprocess

from . import slurm_conf
from .hosts import SWITCH, run, wait_until
from .settings import CONTROLLER, ClusterError

PACKAGES = [
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurm-wlm-mysql-plugin",
    "munge",
    "mariadb-server",
    "iproute2",
    "util-linux",
]
PROGRAMS = ["slurmctld", "slurmd", "slurmdbd", "sacctmgr", "munged", "mariadbd", "mariadb-install-db", "ip", "nsenter"]


class Daemons:
    def __init__(self, settings, paths, hosts):
        self.settings = settings
        self.paths = paths
        self.hosts = hosts

    def write_configuration(self):
        paths, settings = self.paths, self.settings
        for directory in (paths.etc, paths.log, paths.state, paths.database, paths.munge, paths.root / "run", paths.root / "spool"):
            directory.mkdir(parents=True, exist_ok=True)
        paths.shared.mkdir(mode=0o1777, exist_ok=True)
        paths.munge.chmod(0o755)
        for name, text in {
            paths.etc / "slurm.conf": slurm_conf.slurm_conf(settings, paths),
            paths.etc / "gres.conf": slurm_conf.gres_conf(settings, paths),
            paths.etc / "cgroup.conf": slurm_conf.CGROUP_CONF,
            paths.hosts_table: slurm_conf.hosts_table(settings),
        }.items():
            name.write_text(text)
        self._make_gpus()
        dbd = paths.etc / "slurmdbd.conf"
        dbd.touch(mode=0o600)
        dbd.write_text(slurm_conf.slurmdbd_conf(paths))

    def _make_gpus(self):
        """Each is another /dev/null."""
        if not self.settings.gpus:
            return
        self.paths.gpus.mkdir()
        for number in range(int(self.settings.gpus.split(":")[1])):
            os.mknod(self.paths.gpus / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))

    def start_munge(self):
        """One for all hosts, on the switch: it is reached by a file, and no host's death takes it along."""
        munge = self.paths.munge
        key = munge / "munge.key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(128))
        words = ["munged", "--force", f"--key-file={key}", f"--socket={self.paths.munge_socket}"]
        words += [f"--pid-file={munge}/munged.pid", f"--log-file={munge}/munged.log", f"--seed-file={munge}/seed"]
        run([*self.hosts.inside(SWITCH, ("net", "pid")), *words])

    def start_database(self):
        database = self.paths.database
        if not (database / "mysql").exists():
            run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={database}", "--skip-test-db",
                 "--auth-root-authentication-method=normal"])
        # Nobody but this namespace reaches 127.0.0.1 here, so there are no passwords.
        words = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={database}", "--bind-address=127.0.0.1"]
        words += ["--skip-grant-tables", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"]
        words += [f"--socket={self.paths.root}/run/mariadb.sock", f"--pid-file={self.paths.root}/run/mariadb.pid"]
        self._start_in_background(words, "mariadb")
        socket = self.paths.root / "run" / "mariadb.sock"
        wait_until(socket.exists, "MariaDB to listen")

    def start_accounting(self):
        run(self.hosts.command(CONTROLLER, ["slurmdbd"]))
        wait_until(lambda: self._listens(6819), "slurmdbd to listen")

    def start_controller(self):
        run(self.hosts.command(CONTROLLER, ["slurmctld"]))
        wait_until(lambda: self._works(["scontrol", "ping"], "is UP"), "slurmctld to answer")

    def add_accounts(self):
        if "emulated" not in self.slurm(["sacctmgr", "-nP", "list", "cluster", "format=cluster"]):
            self.slurm(["sacctmgr", "-i", "add", "cluster", "emulated"])
        for words in slurm_conf.qos_commands(self.settings):
            self.slurm(["sacctmgr", "-i", *words])

    def start_node(self, node):
        run(self.hosts.command(node, ["slurmd"]))

    def wait_for_nodes(self):
        def all_idle():
            states = self.slurm(["sinfo", "-h", "-N", "-o", "%N %t"])
            idle = set(re.findall(r"^(\S+) (?:idle|mix|alloc)$", states, re.M))
            return idle >= set(self.settings.node_names())

        wait_until(all_idle, "all nodes to be idle")

    def slurm(self, words):
        """The output of one of Slurm's commands on the controller."""
        return run(self.hosts.command(CONTROLLER, words))

    def _works(self, words, wanted):
        done = subprocess.run(
            self.hosts.command(CONTROLLER, words), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode == 0 and wanted in done.stdout

    def _listens(self, port):
        return f":{port} " in run([*self.hosts.inside(CONTROLLER, ("net",)), "ss", "-Hltn"])

    def _start_in_background(self, words, name):
        with open(self.paths.log / f"{name}.log", "ab") as log:
            subprocess.Popen(
                self.hosts.command(CONTROLLER, words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def require_programs():
    missing = [name for name in PROGRAMS if not _found(name)]
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}; scripts/install-deps cluster installs them")


def _found(name):
    places = os.environ.get("PATH", "").split(":") + ["/usr/sbin", "/sbin"]
    return any(os.access(os.path.join(place, name), os.X_OK) for place in places)
