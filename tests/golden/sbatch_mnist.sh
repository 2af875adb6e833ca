#!/bin/sh
#SBATCH --job-name=mnist
#SBATCH --comment=muster:mnist-0123abcd
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --time=0-01:00:00
#SBATCH --chdir=SOURCE/runs/mnist-0123abcd
#SBATCH --output=SOURCE/runs/mnist-0123abcd/logs/slurm-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:USR1@60
#SBATCH --export=ALL

exec /opt/muster/bin/muster supervise SOURCE/runs/mnist-0123abcd
