"""The options that open a server: what goes to its origin alone, and is written nowhere."""

from tui.clicking import Option, Reads
from tui.inputs import read_header, read_proxy

ACCESS = "Access"

SECRET_OPTIONS = ("--header", "--between")
"""Their values may hold a secret: they are blanked out wherever a command line is written down, and no file may keep them."""

_HEADER = Reads("'name: value'", read_header)
_PROXY = Reads("address", read_proxy)


def access_options() -> list[Option]:
    """What opens a server, goes to its origin alone, and is written nowhere."""
    return [
        Option(
            ACCESS,
            "--api-key-file",
            "File that holds the API key [default: KNEESCOPE_API_KEY, else asked for]. No option takes the key itself.",
            metavar="FILE",
        ),
        Option(
            ACCESS,
            "--header",
            "Header for a gateway, 'Name: value'; repeatable, and treated like a key. 'Name: env:VARIABLE' and"
            " 'Name: file:PATH' keep the value out of process lists.",
            type=_HEADER,
            multiple=True,
        ),
        Option(ACCESS, "--ca-file", "PEM file of the authorities that sign the server's certificate.", metavar="FILE"),
        Option(ACCESS, "--client-cert", "PEM file of this client's certificate.", metavar="FILE"),
        Option(ACCESS, "--client-key", "PEM file of its key, when that is not in the same file.", metavar="FILE"),
        Option(ACCESS, "--insecure", "Do not check the server's certificate; said in the result.", is_flag=True),
        Option(
            ACCESS,
            "--proxy",
            "HTTP proxy, such as http://proxy:3128, or env:VARIABLE for one with a password. Proxy variables alone are not"
            " obeyed, and this machine is always reached directly.",
            type=_PROXY,
        ),
    ]
