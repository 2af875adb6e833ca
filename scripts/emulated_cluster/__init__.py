"""The emulated cluster: Slurm's own daemons, each host in namespaces of its own, joined by a bridge."""
