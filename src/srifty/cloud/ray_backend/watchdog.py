"""What ends a VM from inside where nothing of ours is left to: a script that the VM boots with.

Ray may not come up on a VM, an agent may hang, the controller may be gone with the head: none of
these may leave a VM that is paid for.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

# Whoever hears the controller touches the first; who wants the VM's end touches the second.
FOLDER = "/run/srifty"
HEARD = "heard"
END = "end"

_SCRIPT = """\
#!/bin/sh
# Ends this VM for good when the controller of its run is not heard of any more.
mkdir -p -m 1777 {folder}
(
  began=$(date +%s)
  while sleep {every_s}; do
    now=$(date +%s)
    heard=$(stat -c %Y {folder}/{heard} 2>/dev/null || echo 0)
    silent_at=$((heard + {silence_s}))
    [ "$silent_at" -lt $((began + {first_s})) ] && silent_at=$((began + {first_s}))
    if [ -e {folder}/{end} ] || [ "$now" -ge "$silent_at" ] || \\
       [ "$now" -ge $((began + {most_s})) ]; then
      shutdown -h now
    fi
  done
) </dev/null >/dev/null 2>&1 &
"""


def watchdog(
    most_s: float,
    silence_s: float,
    first_s: float,
    *,
    every_s: float = 10.0,
    folder: str = FOLDER,
) -> str:
    """Returns a script that lets the boot go on, watches, and shuts the VM down when it is time.

    Args:
        most_s: seconds that the VM lives at most, from its boot.
        silence_s: seconds without a sign of the controller after which it ends.
        first_s: seconds from its boot that it waits for the first sign at least.
        every_s: seconds between two looks.
        folder: where signs are left.
    """
    return _SCRIPT.format(
        folder=folder,
        heard=HEARD,
        end=END,
        most_s=round(most_s),
        silence_s=round(silence_s),
        first_s=round(first_s),
        every_s=f"{every_s:g}",
    )


def leave_sign(folder: str, sign: str) -> None:
    """Leaves a sign for the VM's watchdog, if it has one.

    Args:
        folder: where signs are left; empty for nowhere.
        sign: `HEARD` or `END`.
    """
    if folder and Path(folder).is_dir():
        with contextlib.suppress(OSError):  # without signs the VM ends, which is the safe side
            (Path(folder) / sign).touch()
