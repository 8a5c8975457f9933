"""The one exception whose text is meant for the user."""


class UserError(Exception):
    """Something that the user can put right; the text says what happened, where, and what to do.

    Front ends print the text without a traceback. `exit_code` follows the table in docs/result.md:
    2 for a wrong call, 3 for no valid answer.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
