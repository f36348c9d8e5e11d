"""WebSocket frames of a server: reads those of a client, and writes its own. Pure."""

import struct
from collections.abc import Generator, Iterator

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Close, CloseCode, Frame, Opcode

_CONTROL_BIT = 0x08
"""The bit of a frame's first byte that is set in the opcodes of control frames."""

PING = Frame(Opcode.PING, b"").serialize(mask=False)

_SMALL_BYTES_MAX = 125
_MEDIUM_BYTES_MAX = 0xFFFF
_WHOLE_TEXT = 0x81
"""The first byte of a text message in one frame."""

_WHOLE_BINARY = 0x82
"""The first byte of a binary message in one frame."""


def text_frame(text: bytes) -> bytes:
    """Return a text message as one frame."""
    return _whole_frame(_WHOLE_TEXT, text)


def binary_frame(data: bytes) -> bytes:
    """Return a binary message as one frame."""
    return _whole_frame(_WHOLE_BINARY, data)


def _whole_frame(first: int, data: bytes) -> bytes:
    # As `Frame.serialize` does, in a tenth of the time: this is done for every message to every client.
    size = len(data)
    if size <= _SMALL_BYTES_MAX:
        return b"%c%c%b" % (first, size, data)
    if size <= _MEDIUM_BYTES_MAX:
        return struct.pack("!BBH", first, 126, size) + data
    return struct.pack("!BBQ", first, 127, size) + data


def close_frame(code: int, reason: str = "") -> bytes:
    """Return a close frame; the reason may have at most 123 bytes."""
    return Frame(Opcode.CLOSE, Close(code, reason).serialize()).serialize(mask=False)


def reply_to(frame: Frame) -> bytes:
    """Return the frame that answers a ping, or a close."""
    opcode = Opcode.PONG if frame.opcode is Opcode.PING else frame.opcode
    return Frame(opcode, frame.data).serialize(mask=False)


class BrokenFrame(Exception):
    """A frame that a client must not send; the connection is closed with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class FrameReader:
    """Joins the bytes of one client to whole messages and control frames.

    Between two messages it holds nothing.
    """

    __slots__ = ("_buffer", "_bytes_max", "_message", "_opcode", "_parsing")

    def __init__(self, bytes_max: int) -> None:
        """Read messages of at most this many bytes."""
        self._bytes_max = bytes_max
        self._buffer: bytearray | None = None
        self._parsing: Generator[None, None, Frame] | None = None
        """Reads the frame whose beginning is in the buffer."""
        self._message: bytearray | None = None
        """The fragments of a message so far."""
        self._opcode = Opcode.TEXT

    def receive(self, data: bytes) -> Iterator[Frame]:
        """Take bytes, and yield the whole messages and the control frames that are complete with them.

        Raise `BrokenFrame` for what a client must not send; nothing may be received after that.
        """
        if self._buffer is None:
            self._buffer = bytearray()
        self._buffer += data
        try:
            while (frame := self._next()) is not None:
                if (whole := self._joined(frame)) is not None:
                    yield whole
        except ProtocolError as error:
            raise BrokenFrame(CloseCode.PROTOCOL_ERROR, str(error)) from error
        except PayloadTooBig as error:
            error.set_current_size(None if self._message is None else len(self._message))
            raise BrokenFrame(CloseCode.MESSAGE_TOO_BIG, str(error)) from error
        except UnicodeDecodeError as error:
            why = f"{error.reason} at position {error.start}"
            raise BrokenFrame(CloseCode.INVALID_DATA, why) from error

    def _next(self) -> Frame | None:
        """Return the next frame if it is complete."""
        if self._parsing is None:
            if not self._buffer:
                self._buffer = None
                return None
            # Fragments count together: a message in many of them would have no limit otherwise. A control frame
            # between them is no part of it.
            is_control = self._buffer[0] & _CONTROL_BIT
            left = self._bytes_max - (0 if is_control else len(self._message or b""))
            self._parsing = Frame.parse(self._exactly, mask=True, max_size=left)
        try:
            next(self._parsing)
        except StopIteration as complete:
            self._parsing = None
            frame: Frame = complete.value
            return frame
        return None

    def _exactly(self, size_bytes: int) -> Generator[None, None, bytes]:
        """Return this many bytes; yield while there are fewer."""
        while self._buffer is None or len(self._buffer) < size_bytes:
            yield
        taken = bytes(self._buffer[:size_bytes])
        # A bytearray drops its beginning without moving the rest: a read with thousands of small frames takes no
        # longer for each of them.
        del self._buffer[:size_bytes]
        return taken

    def _joined(self, frame: Frame) -> Frame | None:
        """Return a control frame, or the whole message that ends with this frame; None if it does not end."""
        # A client may send these between the fragments of a message, and they are no part of it.
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            return frame
        if frame.opcode is Opcode.CLOSE:
            # Refuses the codes that must not be sent: the reply repeats the code of the client.
            Close.parse(frame.data)
            if self._message is not None:
                raise ProtocolError("incomplete fragmented message")
            return frame
        if frame.opcode is not Opcode.CONT:
            if self._message is not None:
                raise ProtocolError("expected a continuation frame")
            if frame.fin:
                return _checked(frame)
            self._opcode, self._message = frame.opcode, bytearray()
        elif self._message is None:
            raise ProtocolError("unexpected continuation frame")
        self._message += frame.data
        if not frame.fin:
            return None
        data, self._message = bytes(self._message), None
        return _checked(Frame(self._opcode, data))


def _checked(message: Frame) -> Frame:
    """Return a message; raise UnicodeDecodeError if it is text that is not UTF-8."""
    if message.opcode is Opcode.TEXT:
        bytes(message.data).decode()
    return message
