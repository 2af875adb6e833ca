#!/bin/sh
#SBATCH --job-name=everything
#SBATCH --comment=muster:everything-0123abcd
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=3
#SBATCH --mem=1024M
#SBATCH --gres=gpu:a100:2
#SBATCH --time=1-02:30:00
#SBATCH --qos=high
#SBATCH --partition=batch
#SBATCH --account=research
#SBATCH --nice=10
#SBATCH --constraint=[rack1|rack2]&avx512
#SBATCH --exclude=n[7-9],login
#SBATCH --dependency=afterok:1
#SBATCH --array=0-3%2
#SBATCH --begin=2030-01-01T00:00:00
#SBATCH --hold
#SBATCH --chdir=/shared/100%/runs/everything-0123abcd
#SBATCH --output=/shared/100%%/runs/everything-0123abcd/logs/slurm-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:USR1@150
#SBATCH --export=ALL
#SBATCH --exclusive=user

exec /opt/muster/bin/muster supervise /shared/100%/runs/everything-0123abcd
