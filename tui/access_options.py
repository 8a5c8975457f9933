"""Options for access to a server. Their values go to its origin only and are recorded nowhere."""

from tui.clicking import Option, Reads
from tui.inputs import read_header, read_proxy

ACCESS = "Access"

SECRET_OPTIONS = ("--header", "--between")
"""Their values may hold a secret: they are blanked out wherever a command line is recorded, and no file may keep them."""

_HEADER = Reads("'name: value'", read_header)
_PROXY = Reads("address", read_proxy)


def access_options() -> list[Option]:
    """Key, headers, certificates and proxy."""
    return [
        Option(
            ACCESS,
            "--api-key-file",
            "File with the API key [default: KNEESCOPE_API_KEY, else you are asked on a 401]. No option takes the key itself.",
            metavar="FILE",
        ),
        Option(
            ACCESS,
            "--header",
            "HTTP header for a gateway, 'Name: value'. Repeatable, and kept secret like a key. 'Name: env:VARIABLE' and"
            " 'Name: file:PATH' keep the value out of process lists.",
            type=_HEADER,
            multiple=True,
        ),
        Option(ACCESS, "--ca-file", "PEM file of certificate authorities to trust in addition to the usual ones.", metavar="FILE"),
        Option(ACCESS, "--client-cert", "PEM file of the client certificate.", metavar="FILE"),
        Option(ACCESS, "--client-key", "PEM file of the client certificate's key, if it is not in the same file.", metavar="FILE"),
        Option(ACCESS, "--insecure", "Do not verify the server's certificate; the result records this.", is_flag=True),
        Option(
            ACCESS,
            "--proxy",
            "HTTP proxy, such as http://proxy:3128, or env:VARIABLE for one with a password. HTTP_PROXY and the like are"
            " ignored, and this machine is always reached directly.",
            type=_PROXY,
        ),
    ]
