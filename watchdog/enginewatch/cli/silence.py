"""`enginewatch silence`: add, list and expire silences of a running daemon."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx
import typer

from enginewatch.cli.options import parse_span
from enginewatch.cli.run import CONFIG_FILE, ConfigFile
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import Config, load_config, parse_matchers
from enginewatch.errors import EnginewatchError
from enginewatch.model import Matcher
from enginewatch.notify.text import one_line
from enginewatch.units import format_time
from enginewatch.web.silences_api import matcher_json, matcher_of

app = typer.Typer(no_args_is_help=True, help="Silences of a running daemon.")

TIMEOUT: Final = 10.0
EXCERPT: Final = 500

Matchers = Annotated[
    list[str] | None, typer.Argument(help="""Such as deployment=chat 'verdict=~"cuda_.*"'.""")
]
Url = Annotated[
    str | None,
    typer.Option(help="The daemon's API; where web.listen of the configuration says if left out."),
]


@app.command()
def add(
    matchers: Matchers = None,
    span: Annotated[str, typer.Option("--for", help="How long, from now on.")] = "1h",
    comment: Annotated[str, typer.Option("--comment", "-m", help="Why.")] = "",
    by: Annotated[str | None, typer.Option(help="Who; the user's name if left out.")] = None,
    config: ConfigFile = None,
    url: Url = None,
) -> None:
    """Silence alerts that all the matchers accept; prints the silence's id."""
    now = wall_clock()
    body = {
        "matchers": [matcher_json(each) for each in _parsed(matchers)],
        "startsAt": format_time(now),
        "endsAt": format_time(now + parse_span(span, "--for")),
        "createdBy": by or getpass.getuser(),
        "comment": comment,
    }
    typer.echo(_Daemon(config, url).ask("POST", "silences", json=body)["silenceID"])


@app.command(name="list")
def list_(
    matchers: Matchers = None,
    expired: Annotated[bool, typer.Option("--expired", help="Those that are over too.")] = False,
    config: ConfigFile = None,
    url: Url = None,
) -> None:
    """List silences, one a line: id, state, end, matchers, creator, comment."""
    wanted = [str(each) for each in _parsed(matchers)]
    for silence in _Daemon(config, url).ask("GET", "silences", params={"filter": wanted}):
        state = silence["status"]["state"]
        if expired or state != "expired":
            asked = ",".join(str(matcher_of(each)) for each in silence["matchers"])
            said = f"{silence['createdBy']}: {silence['comment']}"
            line = f"{silence['id']}  {state}  {silence['endsAt']}  {{{asked}}}  {said}"
            typer.echo(one_line(line))


@app.command()
def expire(
    ids: Annotated[list[str], typer.Argument(help="As `add` and `list` print them.")],
    config: ConfigFile = None,
    url: Url = None,
) -> None:
    """End silences at once."""
    daemon = _Daemon(config, url)
    for id_ in ids:
        daemon.ask("DELETE", f"silence/{quote(id_, safe='')}")


def _parsed(matchers: list[str] | None) -> list[Matcher]:
    try:
        return [found for each in matchers or () for found in parse_matchers(each)]
    except ValueError as mistake:
        raise EnginewatchError(str(mistake)) from None


class _Daemon:
    """The API of the daemon that a configuration or a URL names.

    With both, the URL says where it is and the configuration which token it asks for.
    """

    def __init__(self, path: Path | None, url: str | None):
        token = None
        if path is not None or url is None:
            config = load_config(path or CONFIG_FILE)
            token = config.web.read_token()
            url = url or _own(config)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._url = url.rstrip("/")

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """The JSON of an answer. Raises EnginewatchError."""
        try:
            answer = httpx.request(
                method,
                f"{self._url}/api/v2/{path}",
                headers=self._headers,
                timeout=TIMEOUT,
                trust_env=False,
                **more,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            raise EnginewatchError(
                f"no answer: {one_line(str(failure)) or type(failure).__name__}",
                where=self._url,
                hint="is the daemon running? --url says where",
            ) from None
        try:
            said = answer.json() if answer.content else None
        except ValueError:
            said = answer.text
        if answer.is_success and not isinstance(said, str):
            return said
        reason = f": {one_line(said)[:EXCERPT]}" if isinstance(said, str) else ""
        raise EnginewatchError(f"answered {answer.status_code}{reason}", where=self._url)


def _own(config: Config) -> str:
    """Where this machine reaches a daemon of a configuration."""
    host, port = config.web.address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - never bound to
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
