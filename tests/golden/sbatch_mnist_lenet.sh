#!/bin/sh
#SBATCH --job-name=mnist-lenet
#SBATCH --comment=muster:mnist-lenet-0123abcd
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --time=0-04:00:00
#SBATCH --qos=normal
#SBATCH --chdir=SOURCE/runs/mnist-lenet-0123abcd
#SBATCH --output=SOURCE/runs/mnist-lenet-0123abcd/logs/slurm-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:USR1@60
#SBATCH --export=ALL
#SBATCH --exclusive=user

exec /opt/muster/bin/muster supervise SOURCE/runs/mnist-lenet-0123abcd
