"""Hosts: namespaces that live as long as their first process, joined by a bridge in a namespace of its own.

Nothing is joined to the machine's own network, and a host that dies takes its processes, mounts and cable
along. A host is known by its first process: its pid and start time, so that a reused pid is nobody's.
"""
import json
import os
import pathlib
import signal
import subprocess
import time

from .settings import ClusterError

SWITCH = "switch"

# The first process of a host: waits for ever, and reaps what daemons leave behind.
_INIT = "trap '' HUP INT TERM; while :; do sleep infinity & wait; done"

_PREPARE_HOST = """
exec 8<"$VISIBLE" &&
mount -t tmpfs -o mode=1777 tmpfs /tmp &&
case "$VISIBLE" in /tmp/*) mkdir -p "$VISIBLE" && mount --bind /proc/self/fd/8 "$VISIBLE" ;; esac &&
exec 8<&- &&
mount -t tmpfs -o mode=1777 tmpfs /dev/shm &&
mount -t tmpfs tmpfs /sys/fs/cgroup &&
mount -t tmpfs -o mode=755 tmpfs /run &&
mkdir /run/munge && mount --bind "$MUNGE" /run/munge &&
hostname "$NAME" &&
mount --bind "$HOSTS_TABLE" /etc/hosts &&
mount --bind "$ETC_SLURM" /etc/slurm &&
ip link set lo up
"""
_PREPARE_SWITCH = "ip link add br0 type bridge && ip link set br0 up && ip link set lo up"

_HOST_NAMESPACES = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def run(words, **options):
    """The words' standard output; ClusterError with what they said if they fail or take over a minute."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **options
        )
    except subprocess.TimeoutExpired as slow:
        raise ClusterError(f"{' '.join(words)}: no end after 60 s") from slow
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout


def wait_until(holds, what, seconds=30.0):
    """Polls; ClusterError at the deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not after {seconds:.0f} s")
        time.sleep(0.02)


def start_time(pid):
    """In clock ticks since boot; None if there is no such process, or only its zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = text[text.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])


class Hosts:
    def __init__(self, settings, paths):
        self.settings = settings
        self.paths = paths

    def pid(self, host):
        """Of the host's first process; None if the host is not running."""
        try:
            entry = json.loads(self.paths.holder(host).read_text())
        except OSError:
            return None
        return entry["pid"] if start_time(entry["pid"]) == entry["start_time"] else None

    def running_pid(self, host):
        pid = self.pid(host)
        if pid is None:
            known = [SWITCH, *self.settings.hosts()]
            raise ClusterError(f"host {host} is not running" if host in known else f"no host {host}; hosts: {known[1:]}")
        return pid

    def start_switch(self):
        self._start(SWITCH, ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"], _PREPARE_SWITCH)

    def start(self, host):
        self._start(host, _HOST_NAMESPACES, _PREPARE_HOST)
        cable, pid = f"to-{host}", str(self.running_pid(host))
        at_switch = self.inside(SWITCH, ("net",))
        at_host = self.inside(host, ("net",))
        # A cable of an earlier life of the host is gone with its namespace, but perhaps not yet.
        wait_until(lambda: cable not in run([*at_switch, "ip", "-br", "link"]), f"the old cable of {host} to vanish")
        run([*at_switch, "ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid])
        run([*at_switch, "ip", "link", "set", cable, "master", "br0", "up"])
        run([*at_host, "ip", "address", "add", f"{self.settings.hosts()[host]}/24", "dev", "eth0"])
        run([*at_host, "ip", "link", "set", "eth0", "up"])

    def cut(self, host):
        self._set_cable(host, "down")

    def heal(self, host):
        self._set_cable(host, "up")

    def _set_cable(self, host, state):
        self.running_pid(host)
        run([*self.inside(SWITCH, ("net",)), "ip", "link", "set", f"to-{host}", state])

    def is_cut(self, host):
        return "state DOWN" in run([*self.inside(SWITCH, ("net",)), "ip", "link", "show", f"to-{host}"])

    def kill(self, host):
        """As by a power cut: every process of the host dies at once."""
        pid = self.pid(host)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: self.pid(host) is None, f"the end of host {host}")
        self.paths.holder(host).unlink(missing_ok=True)

    def inside(self, host, namespaces=("net", "uts", "ipc", "mount", "pid")):
        """The words to put before a command so that it runs on the host."""
        words = ["nsenter", "--target", str(self.running_pid(host))]
        return [*words, *(f"--{name}" for name in namespaces), "--"]

    def command(self, host, words):
        """The command as it runs on the host, in the caller's working directory if the host has it."""
        return [*self.inside(host), "/bin/sh", "-c", 'cd "$0" 2>/dev/null || cd /; exec "$@"', os.getcwd(), *words]

    def _start(self, host, namespaces, preparation):
        ready, ready_end = os.pipe()
        script = f"{{ {preparation}\n}} && echo ready >&{ready_end} && exec {ready_end}>&- && {_INIT}"
        environment = {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "NAME": host,
            "VISIBLE": self.settings.visible,
            "HOSTS_TABLE": str(self.paths.hosts_table),
            "MUNGE": str(self.paths.munge),
            "ETC_SLURM": str(self.paths.etc),
        }
        log_path = self.paths.log / f"host-{host}.log"
        with open(log_path, "w", encoding="utf-8") as log:
            outer = subprocess.Popen(
                ["unshare", *namespaces, "/bin/bash", "-c", script],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[ready_end],
                start_new_session=True,
                cwd="/",
            )
        os.close(ready_end)
        with os.fdopen(ready) as said:
            if said.readline() != "ready\n":
                raise ClusterError(f"cannot make the namespaces of host {host}: {log_path.read_text().strip()}")
        children = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        pid = int(children[0])
        entry = {"pid": pid, "start_time": start_time(pid), "parent": outer.pid}
        self.paths.holder(host).parent.mkdir(exist_ok=True)
        self.paths.holder(host).write_text(json.dumps(entry))
