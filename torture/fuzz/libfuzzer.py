"""One decoder under libFuzzer: ``python -m torture.fuzz.libfuzzer DECODER FOLDER [libFuzzer options]``.

A process of its own, since libFuzzer ends the one it runs in.  FOLDER takes what it finds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["lsmkv"]):
    from torture.fuzz.part import HARNESSES, corpus
    from torture.fuzz.target import execute


def main() -> None:
    """Hand every input to the decoder, as it is and sealed."""
    harness = HARNESSES[sys.argv[1]]
    folder = Path(sys.argv[2], "corpus")
    folder.mkdir(exist_ok=True)
    for number, data in enumerate([*harness.seeds(), *corpus(harness.name)]):
        (folder / f"seed-{number}").write_bytes(data)

    def one_input(data: bytes) -> None:
        for version in (data, harness.seal(data)):
            problem = execute(harness, version)[1]
            if problem is not None:
                raise RuntimeError(problem)

    atheris.Setup([sys.argv[0], *sys.argv[3:], str(folder)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
