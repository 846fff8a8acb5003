"""Makes a source distribution with the C of the hot modules.  ``python -m tools.source_distribution``

It is what a release uploads: who installs from it needs a C compiler, and never mypy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.builds import CHECKOUT, BuildError, copy_checkout
from tools.mypyc_mend import PYTHONS

_GENERATE: Final = "import pathlib, tools.mypyc_mend as m; m.generate(pathlib.Path('csrc'))"


def make(target: Path) -> Path:
    """Make it in ``target``, of a copy: C in the checkout would not follow the files being edited."""
    if sys.version_info[:2] != PYTHONS[0]:
        first = ".".join(map(str, PYTHONS[0]))
        raise BuildError(
            f"C for all versions of Python is made by Python {first}: run this with it"
        )
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        for command in (["-c", _GENERATE], ["setup.py", "-q", "sdist"]):
            done = subprocess.run([sys.executable, *command], cwd=folder, check=False)
            if done.returncode:
                raise BuildError(f"python {' '.join(command)} failed")
        (archive,) = Path(folder, "dist").glob("*.tar.gz")
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(archive, target))


if __name__ == "__main__":
    print(make(Path(CHECKOUT, "dist")))
