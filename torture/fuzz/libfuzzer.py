"""One decoder under libFuzzer: ``python -m torture.fuzz.libfuzzer DECODER FOLDER [libFuzzer options]``.

It needs a process of its own, because libFuzzer ends its process.  FOLDER receives the failing inputs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["lsmkv"]):
    from torture.fuzz.part import TARGETS, corpus
    from torture.fuzz.target import execute


def main() -> None:
    """Pass every input to the decoder, as it is and sealed."""
    target = TARGETS[sys.argv[1]]
    folder = Path(sys.argv[2], "corpus")
    folder.mkdir(exist_ok=True)
    for number, data in enumerate([*target.seeds(), *corpus(target.name)]):
        (folder / f"seed-{number}").write_bytes(data)

    def one_input(data: bytes) -> None:
        for version in (data, target.seal(data)):
            problem = execute(target, version)[1]
            if problem is not None:
                raise RuntimeError(problem)

    atheris.Setup([sys.argv[0], *sys.argv[3:], str(folder)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
