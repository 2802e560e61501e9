"""Whatever a document of routes allows, and whatever it does not, sent to a route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import load_all_checks
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.python.asgi import ASGIClient, get_client
from schemathesis.schemas import BaseSchema
from starlette.types import ASGIApp


def routes_of(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The path and the method of each."""
    return [(path, method) for path, methods in document["paths"].items() for method in methods]


def schema_of(document: Mapping[str, Any]) -> BaseSchema:
    """A document of routes as it is read once for all of them."""
    load_all_checks()
    return schemathesis.openapi.from_dict(dict(document))


def try_route(
    schema: BaseSchema,
    route: tuple[str, str],
    app: ASGIApp,
    check: Callable[[schemathesis.Case, ASGIClient], None],
    most: int,
    is_drawn_alone: bool = False,
) -> None:
    """Check a route's answers to what its schema makes, unless that is left out, and to `most` cases that are drawn.

    As `schema.parametrize` does; but that makes the cases while tests are collected, which each process of a run does
    with all of them: it took two fifths of collecting.
    """
    path, method = route
    drawn = settings(
        max_examples=most,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        derandomize=True,
    )

    @drawn
    def test(case: schemathesis.Case) -> None:
        check(case, client)

    modes = [mode for mode in HypothesisTestMode if not is_drawn_alone or mode is not HypothesisTestMode.COVERAGE]
    config = HypothesisTestConfig(project=schema.config, modes=modes)
    with get_client(app) as client:
        # Else it looks for proxies among the variables of the environment, twice for each answer.
        client.trust_env = False
        create_test(operation=schema[path][method.upper()], test_func=test, config=config)()
