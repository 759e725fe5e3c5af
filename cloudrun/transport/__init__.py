"""The way to a box: connect, run, put. Nothing above this package knows SSH, and paramiko is loaded when a box is."""

from __future__ import annotations

from cloudrun.transport.base import Address, Options, Transport


def connect(address: Address, options: Options) -> Transport:
    """An open connection to the box. Raises CloudrunError."""
    if address.is_local:
        from cloudrun.transport.local import LocalTransport

        return LocalTransport(address, options)
    from cloudrun.transport.lean import import_paramiko
    from cloudrun.transport.tcp import Ahead

    first = address.jumps[0] if address.jumps else address
    ahead = None if first.proxy_command else Ahead(first, options.connect_timeout_s)
    try:
        import_paramiko()
        from cloudrun.transport.ssh import SshTransport

        return SshTransport(address, options, ahead)
    except BaseException:
        if ahead is not None:
            ahead.drop()
        raise
