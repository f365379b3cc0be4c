"""The data folder: what is private, and what two processes agree upon."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fencing.machine.entry import needs_servers, take_data_option
from fencing.machine.errors import DiskFull, MachineError, from_os_error
from fencing.machine.folder import DataFolder

TOP = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(path=tmp_path / "data")
    made.prepare()
    return made


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_can_look_into_it(folder: DataFolder) -> None:
    folder.secret("django")
    assert mode_of(folder.path) == 0o700
    assert mode_of(folder.path / "secrets") == mode_of(folder.path / "keys") == 0o700
    assert mode_of(folder.path / "secrets" / "django") == 0o600


def test_a_secret_is_made_once_and_differs_from_every_other(folder: DataFolder) -> None:
    assert folder.secret("one") == folder.secret("one") != folder.secret("two")
    assert len(folder.secret("one")) == 64


def test_two_processes_that_make_the_same_secret_at_once_agree(folder: DataFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from fencing.machine.folder import DataFolder; "
        "print(DataFolder(path=Path(sys.argv[1])).secret('shared'))"
    )
    command = [sys.executable, "-c", code, str(folder.path)]
    all_four = [subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({process.communicate()[0] for process in all_four}) == 1
    assert [path.name for path in (folder.path / "secrets").iterdir()] == ["shared"]


def test_a_half_written_description_of_servers_is_none(folder: DataFolder) -> None:
    assert folder.read_run() == {}
    folder.run_file.write_text('{"kind": "up", "pi')
    assert folder.read_run() == {}


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="a part of that path is a file"):
        DataFolder(path=tmp_path / "file" / "data").prepare()


def test_a_full_disk_is_called_a_full_disk(tmp_path: Path) -> None:
    assert isinstance(from_os_error(OSError(28, "No space left on device"), tmp_path), DiskFull)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["manage.py", "migrate", "--data", "/d"], "/d"),
        (["manage.py", "--data=/d", "migrate"], "/d"),
        (["manage.py", "migrate"], "/from-environment"),
    ],
)
def test_every_command_takes_the_data_folder(arguments: list[str], expected: str) -> None:
    rest, folder = take_data_option(arguments, {"FENCE_DATA": "/from-environment"})
    assert (rest, str(folder.path)) == (["manage.py", "migrate"], expected)


def test_a_data_option_without_a_folder_is_refused() -> None:
    with pytest.raises(MachineError, match="--data needs a folder"):
        take_data_option(["manage.py", "up", "--data"], {})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("migrate", True),
        ("work fence", True),
        ("help", False),
        ("migrate --help", False),
        ("", False),
        ("check", False),
    ],
)
def test_only_commands_that_use_the_servers_start_them(words: str, expected: bool) -> None:
    assert needs_servers(["manage.py", *words.split()]) is expected
