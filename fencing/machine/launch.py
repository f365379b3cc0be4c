"""Executed as a file by a child, before the program it is for: who the program runs as, and with whom it dies.

`python launch.py PARENT SIGNAL IDENTITY PROGRAM [ARGUMENT…]`. Standard library only, and no import of the project:
it has to start in a few milliseconds. See `identity.py` for the identities.
"""

import ctypes
import os
import pwd
import signal
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
# Exit code that says: this machine forbids user name spaces. Anything else that fails is another matter.
FORBIDDEN = 77
# The kernel shows files of users that a name space does not know under this id.
OVERFLOW_ID = 65534


def nobody() -> tuple[int, int]:
    """Return user and group id of `nobody`."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return OVERFLOW_ID, OVERFLOW_ID
    return entry.pw_uid, entry.pw_gid


def stand_in() -> int:
    """Return an id that is not root's and has an entry among the users: PostgreSQL looks for its name."""
    found = (entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid not in (0, OVERFLOW_ID))
    return next(found, OVERFLOW_ID)


def enter_namespace() -> None:
    """Move into a user name space in which the caller's user has another id: no file changes its owner."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "unshare")
    inside = stand_in()
    maps = (("setgroups", "deny"), ("uid_map", f"{inside} {user} 1"), ("gid_map", f"{inside} {group} 1"))
    for name, text in maps:
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 (pathlib costs the start)
            file.write(text)


def drop_to_nobody() -> None:
    """Become `nobody`, for good."""
    user, group = nobody()
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)


def die_with_parent(parent: int, death_signal: int) -> None:
    """Let the kernel send `death_signal` when the process `parent` dies, however it dies (Linux; nothing elsewhere)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:
        # It died before the kernel knew of the wish.
        sys.exit(1)


def main(arguments: list[str]) -> None:
    """Do what the module says; does not return."""
    parent, death_signal, identity, *command = arguments
    if identity == "namespace":
        try:
            enter_namespace()
        except OSError as error:
            print(f"no user name space: {error}", file=sys.stderr)
            sys.exit(FORBIDDEN)
    elif identity == "nobody":
        drop_to_nobody()
    # Last: a change of identity makes the kernel forget the wish.
    die_with_parent(int(parent), int(death_signal))
    # The supervisor blocks or handles signals of its own; a program starts with none of that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execv(command[0], command)  # noqa: S606 (no shell is meant)


if __name__ == "__main__":
    main(sys.argv[1:])
