"""Lets a client vanish as if its machine were off."""

import ctypes
import socket
import struct

ATTACH_FILTER = 26
"""Linux's SO_ATTACH_FILTER."""

DROP = 6
"""The instruction of a filter that returns how many bytes of a packet to keep: here none."""


def vanish(client: socket.socket) -> None:
    """Let a socket take and answer nothing from now on: a filter drops each packet, the kernel's answers too."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", DROP, 0, 0, 0))
    client.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))
