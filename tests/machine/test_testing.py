"""`manage.py test` itself: that a failure shows, and that nothing is left out in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencing.machine import chromium, testing
from fencing.machine.errors import MachineError
from tests.live import bare_environment

TOP = Path(__file__).resolve().parent.parent.parent


def a_check(name: str, code: str) -> testing.Check:
    return testing.Check(name=name, command=[sys.executable, "-c", code])


def test_each_check_that_fails_is_named_with_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [a_check("good", "pass"), a_check("bad", "print('the reason'); exit(3)"), a_check("fine", "pass")]
    assert testing.run_checks(checks, os.environ) == ["bad"]
    said = capsys.readouterr().out
    assert "bad: FAILED\nthe reason" in said
    assert "good: good" in said


def test_all_static_checks_are_among_them(tmp_path: Path) -> None:
    names = [check.name for check in testing.static_checks(tmp_path)]
    assert names == ["ruff check", "ruff format", "templates", "mypy", "import-linter", "migrations"]


def run_test_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "test", *arguments]
    return subprocess.run(command, cwd=TOP, env=bare_environment(), capture_output=True, text=True, check=False)


def test_arguments_go_to_pytest_alone_and_its_closing_line_is_the_last() -> None:
    result = run_test_command("tests/machine/test_testing.py", "-k", "all_static_checks", "-p", "no:cacheprovider")
    assert result.returncode == 0
    assert "static checks" not in result.stdout
    assert "1 passed" in result.stdout.strip().splitlines()[-1]


def test_a_run_without_any_test_fails() -> None:
    result = run_test_command("tests/machine/test_testing.py", "-k", "there_is_no_such_test")
    assert result.returncode == 5


def test_help_explains_and_runs_nothing() -> None:
    result = run_test_command("--help")
    assert result.returncode == 0
    assert "--no-static" in result.stdout
    assert "passed" not in result.stdout


@pytest.mark.parametrize(
    ("words", "chosen"),
    [([], True), (["-k", "token"], True), (["tests"], True), (["tests/browser"], True), (["tests/machine"], False)],
)
def test_a_browser_is_asked_for_where_a_browser_test_may_run(
    words: list[str], chosen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "browser").mkdir(parents=True)
    (tmp_path / "tests" / "machine").mkdir()
    (tmp_path / "tests" / "browser" / "test_page.py").touch()
    monkeypatch.setattr(testing, "BROWSER_TESTS", tmp_path / "tests" / "browser")
    monkeypatch.chdir(tmp_path)
    assert testing.has_browser_tests(words) is chosen


def test_without_browser_tests_no_browser_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "BROWSER_TESTS", tmp_path / "none")
    assert not testing.has_browser_tests([])


def test_a_program_that_only_has_the_name_of_a_browser_does_not_count(tmp_path: Path) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho 'install it another way' >&2\nexit 1\n")
    fake.chmod(0o755)
    assert chromium.find_chromium({chromium.VARIABLE: str(fake)}) is None
    fake.write_text("#!/bin/sh\necho Chromium 1\n")
    assert chromium.find_chromium({chromium.VARIABLE: str(fake)}) == fake


def test_a_missing_browser_is_an_error_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineError, match="apt-get install chromium"):
        chromium.ensure_chromium({chromium.VARIABLE: "/nowhere/chromium"})


def test_closing_lines_add_up_to_one() -> None:
    lines = ["== 2 failed, 30 passed, 1 skipped in 3.00s ==", "4 passed, 1 error in 2.1s (0:00:02)"]
    assert testing.closing_line(lines, "4 s") == "1 error, 2 failed, 1 skipped, 34 passed in 4 s"
    assert testing.closing_line(["", "no tests ran in 0.1s"], "1 s") == "no tests ran in 1 s"


def test_every_test_file_is_in_one_of_the_two_halves() -> None:
    others = {path.name for path in testing.TESTS.iterdir() if path.name not in testing.FIRST}
    found = {path.relative_to(testing.TESTS).parts[0] for path in testing.TESTS.glob("**/test_*.py")}
    assert found <= others | set(testing.FIRST)
    assert all((testing.TESTS / name).is_dir() for name in testing.FIRST)


@pytest.mark.parametrize(
    ("words", "chooses"), [([], False), (["-q"], False), (["--long"], False), (["tests/api"], True), (["--help"], True)]
)
def test_only_a_run_of_everything_is_split(words: list[str], chooses: bool) -> None:
    assert testing.names_tests(words) is chooses


def test_both_halves_run_and_the_worse_end_counts(tmp_path: Path) -> None:
    for name, body in {"one": "assert True", "two": "assert False"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(f"def test_{name}():\n    {body}\n")
    code = "from fencing.machine import testing as t; from pathlib import Path; import os, sys;"
    code += f"t.TESTS = Path({str(tmp_path)!r}); t.FIRST = ('one',);"
    code += "sys.exit(t.run_everything(os.environ, ['-p', 'no:django', '-c', os.devnull]))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, env=bare_environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stderr
    assert "test_two.py::test_two" in result.stdout
    assert result.stdout.strip().splitlines()[-1].startswith("1 failed, 1 passed in ")
