"""Whatever is sent to a team's server, it answers as its document says it would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from schemathesis.core.transport import Response as Answer
from schemathesis.python.asgi import ASGIClient
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from any_input import routes_of, schema_of, try_route
from harken.serve.http.openapi import openapi, team_openapi
from team_server import Served, serving_team
from verbs import fill

pytestmark = pytest.mark.no_cover
DOCUMENT = team_openapi()
# The routes of one person's server (`test_http_any_input.py`).
ONES_OWN = frozenset(routes_of(openapi()))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, shared_database: str) -> Iterator[Served]:
    """One filled team; what is sent may change it."""
    # The module may be set up again in one process, where its tests are shared out anew.
    folder = tmp_path_factory.mktemp("any")
    with serving_team(folder, shared_database, folder.name) as served:
        fill(served.team.memory(served.team.speaker(served.keys["bob"])))
        yield served


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    return schema_of(DOCUMENT)


@pytest.mark.parametrize("route", routes_of(DOCUMENT), ids=" ".join)
def test_every_route_answers_as_documented(route: tuple[str, str], schema: BaseSchema, served: Served) -> None:
    # Models send "5" where 5 is meant, which is taken; and no schema says which ids and spaces there are.
    unsaid = [negative_data_rejection, positive_data_acceptance]

    def check(case: schemathesis.Case, client: ASGIClient) -> None:
        answer: Answer = case.call(session=client, headers={"authorization": f"Bearer {served.keys['bob']}"})
        # Keys are tried by another test, with all that is wrong with them.
        case.validate_response(answer, excluded_checks=[*unsaid, ignored_auth])
        assert answer.status_code < 500, answer.text

    # One reader of arguments, for one person's server and for a team's: the other test sends it each case.
    try_route(schema, route, served.app, check, most=5, is_drawn_alone=route in ONES_OWN)
