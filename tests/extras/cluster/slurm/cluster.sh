#!/usr/bin/env bash
# A Slurm of two nodes on this machine, with accounts: what tests/extras/cluster/slurm/test_slurm.py sweeps on. For root, on Debian 12.
#
#   cluster.sh install       the packages: slurm-wlm, slurmdbd, mariadb-server, munge
#   cluster.sh start [DIR]   start what does not run of it, all its files in DIR; prints DIR. `. DIR/env.sh`, then sbatch
#   cluster.sh stop DIR      end all of it, its jobs too, and wait until nothing is left; DIR stays, for its logs
#
# Everybody listens on 127.0.0.1 alone. Two clusters at once: start the other with its own SLURM_PORT (17001 by default;
# that one and the four that follow).
set -euo pipefail

readonly PORT=${SLURM_PORT:-17001} # n1; n2, slurmctld, slurmdbd and MariaDB come after it
readonly PATIENCE_S=60
export PATH=$PATH:/usr/sbin

die() {
  echo "cluster.sh: $*" >&2
  exit 1
}

until_true() { # until_true WHAT COMMAND…: try it until it succeeds
  local what=$1 end=$((SECONDS + PATIENCE_S))
  shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "$what: not in $PATIENCE_S s; the logs are in $dir/log"
    sleep 0.1
  done
}

install_packages() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    slurm-wlm slurmdbd mariadb-server munge > /dev/null
}

pid_of() { cat "$dir/run/$1.pid" 2> /dev/null; }

runs() { # whether the daemon of this name does; a zombie that nobody has reaped is none
  local pid state
  pid=$(pid_of "$1") && state=$(sed -n 's/^State:\s*\(.\).*/\1/p' "/proc/$pid/status" 2> /dev/null) &&
    [ -n "$state" ] && [ "$state" != Z ]
}

has_ended() { ! runs "$1"; }

launch() { # launch NAME COMMAND…: a daemon in the foreground of nobody's terminal
  local name=$1
  shift
  # Its own session, so that a Ctrl-C of whoever started it is not meant for it.
  setsid "$@" < /dev/null >> "$dir/log/$name.out" 2>&1 &
  echo $! > "$dir/run/$name.pid"
}

write_configuration() {
  mkdir -p "$dir"/{log,run/slurm,munge,mysql,state,spool/n1,spool/n2}
  # munged and MariaDB run as users of their own, and must come to their places.
  chmod 755 "$dir" "$dir"/{log,run,munge}
  chown mysql: "$dir/mysql"
  chown munge: "$dir/munge"
  [ -s "$dir/munge/key" ] || head -c 1024 /dev/urandom > "$dir/munge/key"
  chown munge: "$dir/munge/key"
  chmod 400 "$dir/munge/key"

  cat > "$dir/slurm.conf" << END_OF_FILE
ClusterName=local
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$((PORT + 2))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CryptoType=crypto/munge
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
# Of slurmdbd the socket of munge is called a password.
AccountingStoragePass=$dir/munge/socket
AccountingStoragePort=$((PORT + 3))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurm/slurmctld.pid
SlurmdPidFile=$dir/run/slurm/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
# A node that dies is missed within 15 s, and one that comes back is taken.
SlurmdTimeout=10
ReturnToService=2
SchedulerParameters=sched_interval=5,bf_interval=5
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$PORT CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((PORT + 1)) CPUs=1 State=UNKNOWN
PartitionName=both Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END_OF_FILE

  cat > "$dir/slurmdbd.conf" << END_OF_FILE
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((PORT + 3))
SlurmUser=root
PidFile=$dir/run/slurm/slurmdbd.pid
LogFile=$dir/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 4))
StorageLoc=slurm_acct
StorageUser=slurm
StoragePass=slurm
END_OF_FILE
  chmod 600 "$dir/slurmdbd.conf"

  echo "export SLURM_CONF=$dir/slurm.conf" > "$dir/env.sh"
}

sql() { mariadb --no-defaults --socket="$dir/mysql/socket" --user=root "$@"; }

start_database() {
  if [ ! -d "$dir/mysql/data/mysql" ]; then
    mariadb-install-db --no-defaults --user=mysql --datadir="$dir/mysql/data" --skip-test-db \
      > "$dir/log/mariadb-install.log" 2>&1 || die "no database: see $dir/log/mariadb-install.log"
  fi
  launch mariadb mariadbd --no-defaults --user=mysql --datadir="$dir/mysql/data" --socket="$dir/mysql/socket" \
    --pid-file="$dir/mysql/pid" --bind-address=127.0.0.1 --port=$((PORT + 4)) --innodb-buffer-pool-size=32M
  until_true "MariaDB" sql -e 'SELECT 1'
  sql -e "CREATE DATABASE IF NOT EXISTS slurm_acct;
    CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm', slurm@localhost IDENTIFIED BY 'slurm';
    GRANT ALL ON slurm_acct.* TO slurm@'127.0.0.1', slurm@localhost"
}

both_nodes_idle() { [ "$(sinfo --noheader --Node --format=%T | grep -cxE 'idle|allocated|mixed')" = 2 ]; }

start() {
  [ "$(id -u)" = 0 ] || die "Slurm's daemons here run as root"
  for program in slurmctld slurmd slurmdbd munged mariadbd; do
    command -v $program > /dev/null || die "no $program: cluster.sh install"
  done
  write_configuration
  . "$dir/env.sh"
  # Slurm looks for a slurmdbd.conf beside its slurm.conf.
  runs munged || launch munged setpriv --reuid=munge --regid=munge --init-groups munged --foreground \
    --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" \
    --log-file="$dir/munge/log"
  until_true "munge" munge --no-input --socket="$dir/munge/socket"
  runs mariadb || start_database
  runs slurmdbd || launch slurmdbd slurmdbd -D
  until_true "slurmdbd" sacctmgr --noheader list cluster
  [ -n "$(sacctmgr --noheader --parsable2 list cluster local)" ] || sacctmgr --immediate add cluster local > /dev/null
  runs slurmctld || launch slurmctld slurmctld -D
  until_true "slurmctld" scontrol ping
  for node in n1 n2; do
    runs $node || launch $node slurmd -D -N $node
  done
  until_true "two nodes" both_nodes_idle
  echo "$dir"
}

# Processes of jobs, and slurmd's own helpers for them: known by what they have open or were told. Not by SLURM_CONF
# alone, which whoever sources env.sh passes on to all they start.
left_over() {
  local process
  for process in /proc/[0-9]*; do
    if [ "${process#/proc/}" != $$ ] && { readlink "$process"/fd/* 2> /dev/null | grep -qF "$dir/log/n" ||
      { tr '\0' '\n' < "$process/environ" | grep -qxF "SLURM_CONF=$dir/slurm.conf" &&
        tr '\0' '\n' < "$process/environ" | grep -q '^SLURM_JOB_ID='; } 2> /dev/null; }; then
      echo "${process#/proc/}"
    fi
  done
}

nothing_left() { [ -z "$(left_over)" ]; }

stop() {
  [ -f "$dir/env.sh" ] || return 0 # nothing was started there
  . "$dir/env.sh"
  if runs slurmctld && runs munged; then
    timeout 10 scancel --user=root || true
    timeout 15 bash -c 'while [ -n "$(squeue --noheader --all)" ]; do sleep 0.2; done' || true
  fi
  for name in n1 n2 slurmctld slurmdbd mariadb munged; do
    if runs $name; then
      kill "$(pid_of $name)"
      for _ in {1..200}; do
        has_ended $name && break
        sleep 0.1
      done
      has_ended $name || kill -9 "$(pid_of $name)"
      until_true "the end of $name" has_ended $name
    fi
    rm -f "$dir/run/$name.pid"
  done
  left_over | xargs --no-run-if-empty kill -9 2> /dev/null || true
  until_true "the end of jobs" nothing_left
}

case ${1:-} in
  install)
    install_packages
    ;;
  start)
    dir=${2:-$(mktemp -d /tmp/slurm.XXXXXX)}
    dir=$(mkdir -p "$dir" && cd "$dir" && pwd)
    start
    ;;
  stop)
    dir=$(cd "${2:?cluster.sh stop DIR}" && pwd)
    stop
    ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
