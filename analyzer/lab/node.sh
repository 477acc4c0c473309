#!/bin/sh
# First process of a node. The kernel's command line gives LAB_STATE, LAB_NODE, LAB_ADDRESS (storage network),
# LAB_CONTROL (control network), LAB_PYTHON and LAB_AGENT. The root is the host's own, read-only, under an
# overlay in memory: nothing that is written here stays.
set -e
mount -t proc proc /proc; mount -t sysfs sys /sys
modprobe -d "$LAB_STATE/modules" overlay
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mkdir -p old; pivot_root . old
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /tmp
mkdir -p "$LAB_STATE"; mount -t hostfs none -o "$LAB_STATE" "$LAB_STATE"
hostname "$LAB_NODE"
for device in vec0 vec1; do echo 1 >"/proc/sys/net/ipv6/conf/$device/disable_ipv6" || true; done
ip link set lo up
ip addr add "$LAB_ADDRESS/24" dev vec0; ip link set vec0 up
ip addr add "$LAB_CONTROL/24" dev vec1; ip link set vec1 up
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
# the first process may not end: the kernel would panic, which the supervisor would take for a crash
exec "$LAB_PYTHON" -I -S "$LAB_AGENT" "$LAB_CONTROL"
