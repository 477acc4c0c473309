# A client node: mounts the server with an identity of its own, plays its part, unmounts, powers off.
set -x
modprobe -d "$WORK/modules" nfsv4
echo "$ROLE-id" >/sys/module/nfs/parameters/nfs4_unique_id
case $SCENARIO in *regained) echo Y >/sys/module/nfs/parameters/recover_lost_locks ;; esac
until [ -e /mnt/server.ready ]; do sleep 0.1; done
mkdir -p /nfs
mount -i -t nfs4 -o "vers=$VERSION,addr=10.99.0.1,clientaddr=$ADDRESS,sec=sys$OPTIONS" 10.99.0.1:/ /nfs || touch /mnt/failed
python3 /mnt/calls.py "$ROLE" "$SCENARIO" /nfs /mnt
umount /nfs
dmesg | grep -i nfs
touch "/mnt/done.$ROLE"
sync
exec python3 -c 'import ctypes; ctypes.CDLL(None).syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)'
