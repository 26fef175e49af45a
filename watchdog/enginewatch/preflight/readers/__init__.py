"""Pure parsers: bytes and text in, frozen records out. Each record knows where it came from."""
