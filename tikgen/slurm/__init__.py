"""Scripts for the queueing system Slurm."""
