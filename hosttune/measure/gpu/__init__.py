"""What the GPUs do while a job runs: NVML, then one long-lived nvidia-smi, then nothing, with the reason."""
