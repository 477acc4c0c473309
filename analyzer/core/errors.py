"""Expected errors. Each message is one sentence that says what is wrong and one that says what to do."""


class AnalyzerError(Exception):
    """An error that a user can act on; the command line prints it without a traceback.

    `exit_code` follows the table of exit codes in `analyzer.core.finding.ExitCode`.
    """

    exit_code = 2


class InputError(AnalyzerError):
    """An input that is missing, unreadable, or not what the command takes (exit code 2)."""


class NothingToCheckError(AnalyzerError):
    """The input is fine and holds nothing that any rule could judge (exit code 3)."""

    exit_code = 3


class ToolError(AnalyzerError):
    """An external program (tshark, ...) is missing, too old, or failed (exit code 2)."""


class NotationError(AnalyzerError):
    """A line of the operations notation that can't be read (exit code 2)."""


class NotExercisedError(AnalyzerError):
    """The input holds nothing that a rule could show: the engine turns it into *not exercised*.

    The message says what was not done.
    """

    exit_code = 3


class PremiseError(AnalyzerError):
    """A rule's premise doesn't hold on this input: the engine turns it into the verdict *unknown*.

    The message says what broke the premise and what would settle the question.
    """

    exit_code = 4
