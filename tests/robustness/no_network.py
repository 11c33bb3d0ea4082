"""Runs a program that the kernel refuses every internet socket: `python no_network.py PROGRAM ARGUMENTS`.

A seccomp filter answers `socket(AF_INET | AF_INET6, ...)` by killing the process, whatever library asks, and is inherited by
every process that the program starts. Sockets of the machine itself (`AF_UNIX`), over which worker processes are forked, stay.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

KILLED = 31
"""SIGSYS, with which the kernel ends a process that asks for such a socket."""
SUPPORTED = sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"}
_SOCKET, _ARCHITECTURE = (41, 0xC000003E) if platform.machine() == "x86_64" else (198, 0xC00000B7)
_AF_INET, _AF_INET6 = 2, 10
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`."""
_PROGRAM = (
    (_LOAD, 0, 0, _ARCH),
    (_JUMP_IF_EQUAL, 0, 6, _ARCHITECTURE),
    (_LOAD, 0, 0, _NUMBER),
    (_JUMP_IF_EQUAL, 0, 4, _SOCKET),
    (_LOAD, 0, 0, _FIRST_ARGUMENT),
    (_JUMP_IF_EQUAL, 1, 0, _AF_INET),
    (_JUMP_IF_EQUAL, 0, 1, _AF_INET6),
    (_RETURN, 0, 0, _KILL_PROCESS),
    (_RETURN, 0, 0, _ALLOW),
)
_SET_SECCOMP, _FILTER_MODE, _NO_NEW_PRIVILEGES = 22, 2, 38


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def refuse_internet_sockets() -> None:
    """Install the filter in this process; raises OSError where the kernel does not allow it."""
    text = b"".join(struct.pack("HBBI", *instruction) for instruction in _PROGRAM)
    buffer = ctypes.create_string_buffer(text)
    program = _Program(len(_PROGRAM), ctypes.cast(buffer, ctypes.c_void_p))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    privileges = prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    if privileges or prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER_MODE), ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


if __name__ == "__main__":
    refuse_internet_sockets()
    os.execvp(sys.argv[1], sys.argv[1:])
