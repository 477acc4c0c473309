# The server node: the kernel's nfsd on a file system in memory, lease and grace 10 s. Restarts it when
# asked to (mark "restart"), writing down when that was.
set -x
modprobe -d "$WORK/modules" nfsd; modprobe -d "$WORK/modules" nfsv4
mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /export; mount -t tmpfs export /export
mount -t tmpfs state /var/lib/nfs
mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs; touch /var/lib/nfs/etab /var/lib/nfs/rmtab
mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check,sync)' >/etc/exports
echo 10 >/proc/fs/nfsd/nfsv4gracetime; echo 10 >/proc/fs/nfsd/nfsv4leasetime
nfsdcld
exportfs -a
rpc.mountd -N 3
start() { rpc.nfsd -N 3 -V 4.0 -V 4.1 -V 4.2 -G 10 -L 10 4; }
start
case $SCENARIO in *unstable*) # slow answers: the restart falls between WRITE and COMMIT
  modprobe -d "$WORK/modules" sch_netem; tc qdisc add dev vec0 root netem delay 200ms ;;
esac
touch /mnt/server.ready
while [ ! -e /mnt/stop ]; do
  if [ -e /mnt/restart ]; then
    begin=$(date +%s%N); rpc.nfsd 0; down=$(date +%s%N); sleep 0.5; start; end=$(date +%s%N)
    echo "{\"who\":\"server\",\"process\":\"nfsd\",\"what\":\"restart\",\"wall_start_ns\":$begin,\"wall_down_ns\":$down,\"wall_end_ns\":$end,\"result\":\"ok\"}" >>/mnt/truth.server.jsonl
    rm /mnt/restart; touch /mnt/restarted
  fi
  sleep 0.05
done
sync
exec python3 -c 'import ctypes; ctypes.CDLL(None).syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)'
