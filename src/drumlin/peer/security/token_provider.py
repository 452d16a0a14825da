"""A provider of tokens: a user's function, which is called in a thread and may be asynchronous.

The function may be given by its name, `module:function`, so that a file or an option can name it.
An exception that it raises is reported only by its type and place, since the text of an error, like
the frames of a traceback, may contain the token.
"""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import time
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final

from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost, PeerError
from drumlin.peer.security.claims import lifetime_of
from drumlin.peer.security.settings import OAuthBearer, SecurityOptionError
from drumlin.peer.security.token_endpoint import Token

#: An expiry below the first number would be in the past, and is refused. From the second number on,
#: it is in milliseconds, otherwise in seconds.
_SECONDS_MIN: Final = 1e9
_MILLISECONDS_MIN: Final = 1e11
_EXPIRY_MAX: Final = 1e15


class TokenProvider:
    """The provider of one client's tokens."""

    def __init__(self, login: OAuthBearer) -> None:
        """Import the function, if a name is given.

        Raises:
            SecurityOptionError: the function cannot be imported, or does not accept the login's
                arguments.
        """
        assert login.token is not None
        self._name = login.token if isinstance(login.token, str) else _name_of(login.token)
        self._function = self._found(login.token) if isinstance(login.token, str) else login.token
        self._arguments = dict(login.token_arguments)
        self._has_given = False
        self._check_arguments()

    def __str__(self) -> str:
        return f"token provider {self._name}"

    async def token(self) -> Token:
        """Call the function, and await its result if that is awaitable.

        Raises:
            AuthenticationFailed: the function raised an error, or its result is not a token.
            ConnectionLost: the function raised ConnectionError or TimeoutError; or any error once
                it has returned a token, as then the failure is probably temporary.
        """
        answer = await asyncio.to_thread(self._call)
        if inspect.isawaitable(answer):
            try:
                answer = await answer
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise self._failed(error) from None
            except (Exception, SystemExit) as error:  # noqa: BLE001  it is reported below
                raise self._failed(error) from None
        token = self._token_in(answer)
        self._has_given = True
        return token

    def _token_in(self, answer: Any) -> Token:
        is_pair = isinstance(answer, tuple) and len(answer) == 2
        text, expires_at = answer if is_pair else (answer, None)
        if not isinstance(text, str):
            expected = "expected a string, or a pair of a string and a time"
            raise AuthenticationFailed(f"the {self} gave {_kind_of(answer)}; {expected}")
        if expires_at is None:
            return Token(text, lifetime_of(text))
        is_number = isinstance(expires_at, int | float) and not isinstance(expires_at, bool)
        if not is_number or not _SECONDS_MIN <= expires_at < _EXPIRY_MAX:
            expected = "expected seconds or milliseconds since 1970 at which it expires"
            raise AuthenticationFailed(f"the {self} gave a token with no such time; {expected}")
        is_in_ms = expires_at >= _MILLISECONDS_MIN
        return Token(text, (expires_at / 1000 if is_in_ms else expires_at) - time.time())

    def _call(self) -> Any:
        try:
            return self._function(**self._arguments)
        except BaseException as error:  # noqa: BLE001  SystemExit would end the client's event loop
            raise self._failed(error) from None

    def _failed(self, error: BaseException) -> PeerError:
        passes = self._has_given or isinstance(error, ConnectionError | TimeoutError)
        raised = f"raised {type(error).__name__}{_place_of(error.__traceback__)}"
        return (ConnectionLost if passes else AuthenticationFailed)(f"the {self} {raised}")

    def _found(self, name: str) -> Callable[..., Any]:
        try:
            found = pkgutil.resolve_name(name)
        except ModuleNotFoundError as error:
            why = f"there is no module {error.name!r} here"
        except AttributeError:
            why = f"there is no {name.partition(':')[2]!r} in {name.partition(':')[0]!r}"
        except Exception as error:  # noqa: BLE001  a module may raise anything while it is imported
            why = f"importing it raised {type(error).__name__}{_place_of(error.__traceback__)}"
        else:
            if callable(found):
                return found  # type: ignore[no-any-return]
            why = "that is no function"
        raise SecurityOptionError(f"{self}: {why}") from None

    def _check_arguments(self) -> None:
        try:
            signature = inspect.signature(self._function)
        except ValueError:  # a function that is not written in Python may have no signature
            return
        try:
            signature.bind(**self._arguments)
        except TypeError as error:  # its text has names of arguments, but no values
            raise SecurityOptionError(f"{self}: {error}") from None


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}:{name}"


def _place_of(traceback: TracebackType | None) -> str:
    """The file and line where the error was raised; empty if no frame is inside the function."""
    if traceback is None or traceback.tb_next is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    file = PurePath(traceback.tb_frame.f_code.co_filename).name
    return f" ({file}, line {traceback.tb_lineno})"


def _kind_of(answer: object) -> str:
    return "nothing" if answer is None else f"a {type(answer).__name__}"
