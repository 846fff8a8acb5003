"""The harness under the name that wheels have, and without the libraries of its other extras."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench.__main__ import main
from gates import LONG_WAIT_S
from tools.check_install import name_in_wheel

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = ("--quick", "--minute", "--entries", "200", "--lookups", "100")


def installed(folder: Path, *arguments: str, fails: bool = False) -> str:
    """What ``lsmkv bench`` prints where the harness is installed as a wheel does."""
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    if not (packages / "lsmkv").exists():
        (packages / "lsmkv").symlink_to(ROOT / "lsmkv")
        (packages / "lsmkv_bench").symlink_to(ROOT / "bench")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lsmkv", "bench", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(packages)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    assert bool(done.returncode) == fails, done.stdout
    return done.stdout


def test_an_installed_harness_writes_its_report_into_the_present_folder(tmp_path: Path) -> None:
    said = installed(tmp_path, "saved-io", *SMALL)
    report = (tmp_path / "out" / "saved-io" / "report.html").read_text("utf-8")
    assert "lsmkv bench saved-io --quick" in report and "report.html" in said


def test_a_plug_in_of_a_checkout_works_in_an_installed_harness(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "from bench.experiments.saved_io.datasets import Content, DataSet, register\n"
        "content = Content([(b'a', b''), (b'c', b'')], [b'b'])\n"
        "register(DataSet('letters', lambda entries, seed: content))\n"
    )
    options = ("--plugin", str(plugin), "--datasets", "letters,none")
    said = installed(tmp_path, "saved-io", "--quick", *options, fails=True)
    assert "no data set none: must be of digits," in said and ", letters, " in said


def test_an_installed_harness_calls_itself_by_its_command(tmp_path: Path) -> None:
    assert installed(tmp_path, "saved-io", "--help").startswith("usage: lsmkv bench saved-io")
    assert "usage: lsmkv bench {" in installed(tmp_path, "nothing", fails=True)


def test_without_the_harness_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "lsmkv").symlink_to(ROOT / "lsmkv")
    blocked = "import sys; sys.modules['lsmkv_bench'] = None; import lsmkv.cli; lsmkv.cli.main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", blocked, "bench", "saved-io"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "packages")},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    assert done.returncode == 1
    assert 'is not installed: pip install "lsmkv[bench]"' in done.stderr


def test_without_matplotlib_a_run_says_how_to_have_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    main(["saved-io", *SMALL, "--out", str(tmp_path)])
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert kinds - {".parquet"} == {".html", ".json", ".csv"}
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "lsmkv[bench-charts]" in report and "lsmkv[bench-charts]" in capsys.readouterr().out


def test_without_matplotlib_a_section_of_a_document_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"--into has pictures.*lsmkv\[bench-charts\]"):
        main(["saved-io", *SMALL, "--out", str(tmp_path), "--into", "no.md"])


@pytest.mark.parametrize(("library", "extra"), [("jinja2", "bench"), ("distributed", "dask")])
def test_a_missing_library_is_named_with_its_extra(
    library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "cluster-build" if library == "distributed" else "saved-io"
    for module in [name for name in sys.modules if name.startswith("bench.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SystemExit, match=rf"{library} is missing: pip install 'lsmkv\[{extra}\]'"):
        main([name, "--quick"])


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("bench/harness/report.css", "lsmkv_bench/harness/report.css"),
        ("bench/examples/log_engine.py", None),
        ("lsmkv/explore/web/src/base.css", "lsmkv/explore/web/src/base.css"),
        ("tests/conftest.py", None),
        ("tools/builds.py", None),
    ],
)
def test_a_wheel_has_the_package_and_the_harness_alone(file: str, name: str | None) -> None:
    assert name_in_wheel(file) == name
