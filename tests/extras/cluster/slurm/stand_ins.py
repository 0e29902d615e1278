"""Stand-ins for Slurm's commands: little scripts, put on PATH, that run each task of an array here, in turn."""

import os
from pathlib import Path

# What they share lies in the directory STAND_INS: each job's script, the states of its tasks, what was cancelled.
_SBATCH = r"""#!/bin/bash
if [ -e "$STAND_INS/refusal" ]; then cat "$STAND_INS/refusal" >&2; exit 1; fi
job=$(($(ls "$STAND_INS"/*.sh 2> /dev/null | wc -l) + 1))
cp "${@: -1}" "$STAND_INS/$job.sh"
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\)%.*/\1/p' "$STAND_INS/$job.sh")
(
  for task in $(seq 0 "$last"); do
    export SLURM_JOB_ID=$((100 * job + task)) SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task
    if bash "$STAND_INS/$job.sh"; then state=COMPLETED; else state=FAILED; fi
    echo "${job}_$task|$state|here" >> "$STAND_INS/states"
  done
) < /dev/null > /dev/null 2>> "$STAND_INS/err" &
echo "Submitted batch job $job"
"""
_SRUN = r"""#!/bin/bash
while [ "${1#--}" != "$1" ]; do
  case $1 in
    --output) out=$2; shift ;;
    --error) err=$2; shift ;;
  esac
  shift
done
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1
named() { sed "s/%A/$SLURM_ARRAY_JOB_ID/; s/%a/$SLURM_ARRAY_TASK_ID/; s/%j/$SLURM_JOB_ID/; s/%t/0/" <<< "$1"; }
exec "$@" >> "$(named "$out")" 2>> "$(named "$err")"
"""
_SACCT = r"""#!/bin/bash
echo 'JobID|State|NodeList'
cat "$STAND_INS/states" 2> /dev/null || true
"""
_SCONTROL = r"""#!/bin/bash
echo "slurm_load_jobs error: Invalid job id specified" >&2
exit 1
"""
_SCANCEL = r"""#!/bin/bash
echo "$1" >> "$STAND_INS/cancelled"
"""
_SCRIPTS = {"sbatch": _SBATCH, "srun": _SRUN, "sacct": _SACCT, "scontrol": _SCONTROL, "scancel": _SCANCEL}


class StandIns:
    """The scripts and what they leave, in the new directory `home`; `environment` is that of a process to use them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "bin").mkdir(parents=True)
        for name, text in _SCRIPTS.items():
            path = home / "bin" / name
            path.write_text(text)
            path.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{home}/bin:{os.environ['PATH']}", "STAND_INS": str(home)}

    def refuse(self, why: str) -> None:
        """From now on sbatch says this, and submits nothing."""
        (self.home / "refusal").write_text(why)

    def submitted(self) -> list[list[str]]:
        """The lines of each script that sbatch was given."""
        return [path.read_text().splitlines() for path in sorted(self.home.glob("*.sh"))]

    def states(self) -> list[str]:
        """Of tasks that have come to their end, in that order: number, state, node."""
        path = self.home / "states"
        return path.read_text().splitlines() if path.exists() else []
