#!/usr/bin/env python3
"""The one program of the project: `python3 manage.py up`, `python3 manage.py test`, `python3 manage.py help`."""

import os
import sys


def main() -> None:
    """Make sure that Python and packages are there, then run the command."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        # This file stays readable for every Python 3: no f-string, no annotation that is evaluated.
        sys.exit("error: this needs Python 3.11, 3.12 or 3.13; here is {}.{}".format(*sys.version_info[:2]))
    from fencing import bootstrap  # noqa: PLC0415 (an old Python cannot even read it)

    bootstrap.enter(sys.argv)

    from fencing.machine import entry  # noqa: PLC0415 (needs what bootstrap has just made sure of)

    sys.exit(entry.main(sys.argv, run_django))


def run_django(arguments: "list[str]") -> None:
    """Run one of Django's commands or our own."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fencing.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 (as above)

    execute_from_command_line(arguments)


if __name__ == "__main__":
    main()
