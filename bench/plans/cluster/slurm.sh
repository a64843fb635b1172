#!/bin/sh
# Runs a study as an array job of a real Slurm, with a controller and two nodes as daemons on this
# machine. One node dies during the job. The job is submitted again and has to finish the study; the
# merged result has to equal that of a single machine, byte for byte. Usage, as root: slurm.sh PROGRAM
# FOLDER. Needs slurm-wlm, slurm-wlm-basic-plugins and munge. Stops every daemon that it started.
set -eu

fathom=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
plan=$(realpath "$(dirname "$0")/study.toml")
base=$((20000 + $$ % 20000))
export SLURM_CONF="$dir/slurm.conf"
export FATHOM="$fathom"
rm -rf "${dir:?}"/*
cd "$dir"

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
# Waits until a command succeeds, for at most two minutes, which only a hang reaches.
until_true() {
  tries=0
  until sh -c "$1"; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || { say "waited in vain for: $1"; tail -n 20 ./*.log; exit 1; }
    sleep 0.2
  done
}

started=""
cleanup() {
  # Job steps outlive the daemon of their node.
  left="$(steps a) $(steps b)"
  for pid in $started; do kill "$pid" 2>/dev/null || true; done
  for pid in $left; do kill -9 "$pid" 2>/dev/null || true; done
  for pid in $started; do wait "$pid" 2>/dev/null || true; done
}
# Prints the processes of a node's job steps, and their parents, the step daemons.
steps() {
  for pid in $(scontrol listpids '*' "$1" 2>/dev/null | awk '$1 > 1 { print $1 }'); do
    echo "$pid"
    parent=$(awk '$1 == "PPid:" { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
    if grep -q slurmstepd "/proc/${parent:-0}/comm" 2>/dev/null; then echo "$parent"; fi
  done | sort -u
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Uses its own keys, so that a Slurm of the machine stays untouched.
mkdir munge state spool-a spool-b
chown -R munge:munge munge 2>/dev/null || true
head -c 1024 /dev/urandom > munge/key
chmod 0400 munge/key
chown munge:munge munge/key
chmod 0711 munge
socket="$dir/munge/socket"
# --force, because the folders above may be writable by others.
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --force --key-file=munge/key --socket="$socket" \
  --pid-file=munge/pid --seed-file=munge/seed --log-file=munge/log > munge.out 2>&1 &
started="$started $!"
until_true "[ -S '$socket' ]"

cat > slurm.conf <<CONF
ClusterName=sweep
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=root
SlurmctldPort=$base
AuthType=auth/munge
AuthInfo=socket=$socket
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2
ReturnToService=2
# Slurm detects a dead node after ten seconds, so that the test does not take minutes.
SlurmdTimeout=10
KillWait=2
NodeName=a NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=2 RealMemory=2048
NodeName=b NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=2 RealMemory=2048
PartitionName=all Nodes=a,b Default=YES MaxTime=INFINITE State=UP
CONF

slurmctld -D > slurmctld.out 2>&1 &
started="$started $!"
slurmd -D -N a > slurmd-a.out 2>&1 &
node_a=$!
slurmd -D -N b > slurmd-b.out 2>&1 &
started="$started $node_a $!"
until_true "[ \"\$(sinfo --noheader --format=%t --states=idle | head -n 1)\" = idle ] && [ \"\$(sinfo --noheader --format=%D --states=idle)\" = 2 ]"
say "Slurm $(sinfo --version | cut -d' ' -f2): two nodes, $(sinfo --noheader --format=%C) cores (allocated/idle/other/total)"

"$fathom" plan emit slurm "$plan" --tasks 8 --cores 1 --results results > job.sh
job=$(sbatch --parsable job.sh)
say "array job $job"
done_runs() { "$fathom" plan status "$plan" --results results --json 2>/dev/null | sed -n 's/.*"done": \([0-9]*\).*/\1/p'; }
until_true "[ \"\$($fathom plan status $plan --results results --json 2>/dev/null | sed -n 's/.*\"done\": \\([0-9]*\\).*/\\1/p')\" -ge 20 ]"

victims=$(steps a)
say "node a dies with $(echo "$victims" | wc -w) processes of its steps, after $(done_runs) runs"
kill -9 "$node_a"
for pid in $victims; do kill -9 "$pid" 2>/dev/null || true; done
# Slurm submits nothing again by itself; the test does so below.
scancel "$job"
until_true "[ -z \"\$(squeue --noheader --states=R,PD,CG --nodelist=b)\" ]"
if "$fathom" plan status "$plan" --results results > status.txt 2>&1; then
  say "the study was complete before the node died: nothing is shown"; exit 1
fi
say "$(head -n 1 status.txt)"
until_true "sinfo --noheader --nodes=a --format=%t | grep -q down"
say "Slurm says that node a is down"

job=$(sbatch --parsable job.sh)
say "array job $job, the same script, on the node that is left"
until_true "[ -z \"\$(squeue --noheader --jobs=$job 2>/dev/null)\" ]"
"$fathom" plan status "$plan" --results results
grep -h "as a task" fathom-study-"$job"_*.log | sort
"$fathom" plan run "$plan" --results results --json merged.json > /dev/null 2>&1
"$fathom" plan run "$plan" --results alone --json alone.json > /dev/null 2>&1
cmp merged.json alone.json
say "$(wc -c < merged.json) bytes of JSON, equal to a single machine's: $(sha256sum < merged.json | cut -c1-16)"
