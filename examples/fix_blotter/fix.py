"""FIX and NVFIX messages as a trading system writes them, without Sowline."""

from typing import Final

SOH: Final = "\x01"


def fix(*fields: tuple[int, str]) -> bytes:
    """Return a FIX message with its BodyLength and CheckSum."""
    body = "".join(f"{tag}={value}{SOH}" for tag, value in fields)
    message = f"8=FIX.4.4{SOH}9={len(body)}{SOH}{body}".encode()
    return message + f"10={sum(message) % 256:03d}{SOH}".encode()


def nvfix(**fields: str) -> bytes:
    """Return an NVFIX message: names in place of tags."""
    return "".join(f"{name}={value}{SOH}" for name, value in fields.items()).encode()


def shown(message: bytes) -> str:
    """Return a message for people to read, with | for its separators."""
    return message.decode().replace(SOH, "|")
