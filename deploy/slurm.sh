#!/bin/bash
# sbatch deploy/slurm.sh python train.py     each rank is a capture in one folder; then: pinprof report train.ranks
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
set -eu
folder=${CAPTURES:-$PWD/captures}/$SLURM_JOB_ID # on a file system that all nodes share
mkdir -p "$folder"
# shellcheck disable=SC2016 # each task knows its node
srun bash -c 'exec pinprof record -o "$0" --label host="$SLURMD_NODENAME" --label job="$SLURM_JOB_ID" -- "$@"' \
  "$folder/train" "$@"
