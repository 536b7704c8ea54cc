"""Exceptions, each with the sentence the program says."""


class Error(Exception):
    """Anything that stopped BDO."""


class DataError(Error, ValueError):
    """Series, names or settings of a call that cannot be used."""


class UsageError(Error, ValueError):
    """Arguments a verb does not take."""


class CohortError(Error):
    """A cohort that cannot be opened, read or written."""


class ModelError(Error):
    """A model directory that cannot be used."""


class FileError(Error, OSError):
    """A file that cannot be read or written."""


class UnfamiliarWarning(UserWarning):
    """Something the model says that was never checked on scans like these."""
