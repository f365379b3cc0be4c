"""Whether the web server may listen where it is to listen."""

import errno
import socket
import time

from fencing.machine.errors import MachineError, PortTaken

LOOK_AGAIN_S = 0.1


def check_port(host: str, port: int, *, patience_s: float = 0.0) -> None:
    """Refuse a port that something listens on, which is best told before anything is started.

    A process that was killed has lost its name before the kernel closes its sockets: `patience_s` is for that.

    Raises:
        PortTaken: it is taken.
        MachineError: the host is none of this machine, or the port needs more rights.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and patience_s > 0:
            time.sleep(LOOK_AGAIN_S)
            check_port(host, port, patience_s=patience_s - LOOK_AGAIN_S)
            return
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port) from error
        raise MachineError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
