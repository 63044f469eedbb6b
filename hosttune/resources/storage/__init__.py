"""fstab, mounts, data disks and /tmp."""
