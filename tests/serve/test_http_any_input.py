"""Whatever is sent to a route, it answers as its document says it would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from schemathesis.core.transport import Response as Answer
from schemathesis.python.asgi import ASGIClient
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from starlette.types import ASGIApp

from any_input import routes_of, schema_of, try_route
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.run import Daemon
from harken.serve.http.openapi import openapi
from harken.serve.http.routes import make_app
from verbs import fill

DOCUMENT = openapi()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    """One filled store; what is sent may change it."""
    folder = tmp_path_factory.mktemp("any")
    with Harken(folder / "home", settings={"embedder": "none"}, env={}) as harken:
        fill(harken)
        yield make_app(harken, Daemon(harken, DaemonPaths(str(folder))))


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    return schema_of(DOCUMENT)


@pytest.mark.parametrize("route", routes_of(DOCUMENT), ids=" ".join)
def test_every_route_answers_as_documented(route: tuple[str, str], schema: BaseSchema, app: ASGIApp) -> None:
    def check(case: schemathesis.Case, client: ASGIClient) -> None:
        answer: Answer = case.call(session=client)
        # Models send "5" where 5 is meant, which is taken; and no schema says which ids and folders there are.
        case.validate_response(answer, excluded_checks=[negative_data_rejection, positive_data_acceptance])
        assert answer.status_code < 500

    try_route(schema, route, app, check, most=8)
