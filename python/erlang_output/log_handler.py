"""Python's `logging`, for Erlang's `logger`."""

from __future__ import annotations

import functools
import logging
from typing import Any

from .native import _log

#: The attributes of every record; all others were given as `extra`.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LogHandler(logging.Handler):
    """Sends records to `logger`, with their location, `extra`, and exceptions as data.

    The root logger has one. A program that configures `logging` itself can name the class:
    `erlang_output.log_handler.LogHandler`. With a formatter, the formatted record, including the
    traceback, is the message.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not self._send(record):
                self._keep(record)
        except Exception:
            self.handleError(record)

    def _send(self, record: logging.LogRecord) -> bool:
        exception = None
        if self.formatter is not None:
            message = self.format(record)
        else:
            message = record.getMessage()
            if record.stack_info:
                message = f"{message}\n{record.stack_info}"
            exception = record.exc_info[1] if record.exc_info else None
        values = record.__dict__
        extra = {key: values[key] for key in values.keys() - _OWN} or None
        place = (
            record.name,
            record.module,
            record.pathname,
            record.lineno,
            record.funcName or "",
            record.threadName or "",
            values.get("taskName"),
        )
        return _log(record.levelno, message, record.created, place, extra, exception)

    def _keep(self, record: logging.LogRecord) -> None:
        """Erlang does not take the record: do what Python does without a handler."""
        last = logging.lastResort
        if last is not None and record.levelno >= last.level:
            last.handle(record)


def install() -> None:
    """Add the handler to the root logger."""
    handler = LogHandler()
    logging.getLogger().addHandler(handler)
    logging.basicConfig = _basic_config(handler)


def _basic_config(handler: LogHandler) -> Any:
    """Return a `logging.basicConfig` that works although the root logger has our handler.

    Without a file, a stream or handlers it configures our handler; otherwise it adds to it.
    """
    original = logging.basicConfig

    @functools.wraps(original)
    def basic_config(**options: Any) -> None:
        root = logging.getLogger()
        if root.handlers != [handler] or options.get("force"):
            return original(**options)
        root.removeHandler(handler)
        others = any(options.get(name) is not None for name in ("filename", "stream", "handlers"))
        formatter = handler.formatter
        try:
            original(**options if others else {**options, "handlers": [handler]})
        finally:
            if handler not in root.handlers:
                root.addHandler(handler)
            if not options.get("format"):
                # Python's default format repeats what Erlang's handlers add themselves.
                handler.setFormatter(formatter)
        return None

    return basic_config
