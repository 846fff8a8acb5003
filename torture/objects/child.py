"""The process of one trial of the part ``objects``.

``python -m torture.objects.child NAME SEED SECONDS DIRECTORY`` runs the trial and prints a line of JSON:
the folder of ``lsmkv``, counts and failures.  Its parent notices a crash, a hang, or an error at exit.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import threading
from pathlib import Path

import lsmkv
from torture.objects.families import FAMILIES
from torture.objects.trial import ObjectTrial, in_words, patience_s, watch_hooks


def main(arguments: list[str]) -> int:
    """Run the trial that the arguments name."""
    name, seed, seconds, directory = arguments
    faulthandler.enable(all_threads=True)
    # Until the very end, because an exit may hang too.
    faulthandler.dump_traceback_later(patience_s(float(seconds)), exit=True)
    family, variant, _ = name.split("/")
    trial = ObjectTrial(variant, int(seed), Path(directory), float(seconds))
    trial.directory.mkdir(parents=True, exist_ok=True)
    watch_hooks(trial)
    try:
        FAMILIES[family][variant](trial)
    except Exception as error:
        trial.fail(in_words(error))
    gc.collect()
    sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
    found = {
        "loaded": str(Path(lsmkv.__file__).parent),
        "counts": {f"{family}: {what}": number for what, number in trial.counts.items()},
        "failures": trial.failures,
    }
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
