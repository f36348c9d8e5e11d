"""Writes all files of the protocol description."""

from deploy.protocol.files import generated

if __name__ == "__main__":
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
