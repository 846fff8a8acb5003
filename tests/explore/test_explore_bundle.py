"""The page's script: it is what its sources give, and reads the data that Python writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from explored_stores import make_store
from lsmkv.explore import contract, messages
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.schema import ROOTS, schema

EXPLORE = Path(contract.__file__).parent
WEB, ASSETS = EXPLORE / "web", EXPLORE / "assets"

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(),
    reason="needs Node and the page's libraries: make page",
)


def node(*arguments: str | Path) -> None:
    done = subprocess.run(
        ["node", *arguments], cwd=WEB, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_of_the_page_is_that_of_python() -> None:
    stored = json.loads((WEB / "contract.schema.json").read_text("utf-8"))
    assert stored == json.loads(json.dumps(schema())), "make page"


def test_the_page_reads_the_version_that_python_writes() -> None:
    source = (WEB / "src" / "model.ts").read_text("utf-8")
    assert f"export const VERSION = {contract.VERSION};" in source


@needs_node
def test_the_types_of_the_page_are_those_of_the_schema(tmp_path: Path) -> None:
    made = tmp_path / "contract.d.ts"
    arguments = ["--input", "contract.schema.json", "--output", str(made)]
    arguments += ["--unreachableDefinitions", "--no-additionalProperties"]
    node("node_modules/json-schema-to-typescript/dist/src/cli.js", *arguments)
    assert made.read_text("utf-8") == (WEB / "src" / "contract.d.ts").read_text("utf-8")


@needs_node
def test_the_bundle_is_what_its_sources_give(tmp_path: Path) -> None:
    node("build.mjs", "--out", tmp_path)
    for name in ("explore.js", "explore.css"):
        assert (tmp_path / name).read_bytes() == (ASSETS / name).read_bytes(), "make page"


def test_the_bundle_names_the_licence_of_what_it_contains() -> None:
    notice = (WEB / "NOTICE.txt").read_text("utf-8")  # the build tries it against the bundle
    assert (ASSETS / "explore.js").read_text("utf-8").startswith(f"/*\n{notice}*/\n")


@needs_node
def test_the_data_of_stores_fits_the_schema(tmp_path: Path) -> None:
    paths = []
    for at, options in enumerate(
        (
            {},
            {"filter_policy": "none"},
            {"filter_granularity": "table"},
            {"filter_policy": "ribbon"},
        )
    ):
        make_store(tmp_path / f"db{at}", 400, **options)
        with Exploration(str(tmp_path / f"db{at}")) as exploration:
            paths.append(tmp_path / f"page{at}.json")
            paths[-1].write_bytes(msgspec.json.encode(exploration.page(Detail())))
    node("validate.mjs", "Page", *paths)


@needs_node
def test_what_a_server_says_fits_the_schema(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 400)
    with Exploration(str(tmp_path / "db"), is_live=True) as exploration:
        table = next(exploration._db.inspect().tables()).number
        said: dict[str, msgspec.Struct | None] = {
            "LookupReply": exploration.look_up(b"key0000001"),
            "BlockReply": exploration.block(table, 0),
            "Pulse": exploration.pulse(),
            "Problem": messages.Problem(version=1, problem="x"),
            "LookupRequest": messages.LookupRequest(),
        }
    assert {*said, "Page"} == {root.__name__ for root in ROOTS}
    for name, message in said.items():
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(message))
        node("validate.mjs", name, tmp_path / f"{name}.json")


@needs_node
def test_the_sources_are_typed_and_linted() -> None:
    node("node_modules/typescript/bin/tsc", "--noEmit")
    node("node_modules/@biomejs/biome/bin/biome", "ci", "--colors=off", ".")


@needs_node
def test_the_tests_of_the_sources_pass() -> None:
    node("test.mjs")
