"""Text from outside, fit for a terminal, a log or a message.

Whoever may name a pod, a label or a driver chooses characters. Some move the cursor, change the
title of the window, turn the direction of writing or begin a new line; they are shown as escapes.
"""


def escape(text: str) -> str:
    """The text on one line, with every character that does not print as an escape: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def escape_json(text: str) -> str:
    """The same JSON, with the characters that JSON allows and terminals obey as `\\u` escapes."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        char if char == "\n" or char.isprintable() else _json_escape(char) for char in text
    )


def _shown(char: str) -> str:
    return char if char.isprintable() else repr(char)[1:-1]


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
