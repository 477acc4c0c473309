#!/bin/sh
# First process of a node (user-mode-linux). The kernel's command line gives WORK, ROLE, ADDRESS, VERSION,
# SCENARIO. The root is the host's own, read-only, under an overlay in memory: nothing written here stays.
mount -t proc proc /proc; mount -t sysfs sys /sys
modprobe -d "$WORK/modules" overlay
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root || exit 1
mkdir -p old; pivot_root . old
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /run
mount -t hostfs none -o "$WORK/share" /mnt
ip link set lo up; ip link set vec0 up; ip addr add "$ADDRESS/24" dev vec0
hostname "$ROLE"
exec >"/mnt/$ROLE.log" 2>&1
case $ROLE in server) exec sh /mnt/server.sh ;; *) exec sh /mnt/client.sh ;; esac
