"""Signing in to a team's pages by an OpenID provider: code flow with PKCE, state and nonce; the email tells who it is.

The provider is asked by Authlib; what it says is believed only where it is signed by its keys, meant for us, and of
this very attempt of this very browser.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from harken.config.sections import OidcConfig
from harken.engine.team import Team
from harken.errors import AccessError, ConfigError, HarkenError, KeyRefusedError, MissingExtraError, UsageError
from harken.log import Log
from harken.serve.http.problems import problem_of
from harken.serve.team.pages import MENU, PREFIX, SIGN_IN, Login
from harken.serve.viewer.access import Sessions
from harken.serve.viewer.app import let_in
from harken.serve.viewer.rendering import make_environment
from harken.text.characters import sha256_of

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import OAuth2Client

BEGIN, COME_BACK = "/login/oidc", "/login/oidc/callback"
_COOKIE = "harken-login"
_ATTEMPT_SECONDS, _MOST_ATTEMPTS, _PROVIDER_SECONDS, _LEEWAY_SECONDS = 600.0, 10_000, 10.0, 30
# What providers sign with; never without a key, nor with a shared one.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_METADATA_SECONDS = 3600.0
_log = Log(__name__)


class LoginError(AccessError):
    """A login at a provider that lets nobody in; the words are for whoever tries."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login that was begun: what its answer has to fit."""

    nonce: str
    verifier: str
    redirect_url: str
    began_at: float


@dataclass(slots=True)
class Provider:
    """An OpenID provider, as its own description tells it; asked with each login, within ten seconds.

    Raises:
        LoginError: it does not answer, or not as it has to.
    """

    config: OidcConfig
    clock: Callable[[], float] = time.monotonic
    _told: Mapping[str, Any] = field(default_factory=dict)
    _told_at: float = 0.0

    def metadata(self) -> Mapping[str, Any]:
        """Its description, read anew now and then."""
        if not self._told or self.clock() - self._told_at > _METADATA_SECONDS:
            issuer = str(self.config.issuer)
            with self._client("") as client:
                told = self._read(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if told.get("issuer") != issuer:
                # Another could answer for it otherwise.
                raise LoginError("The provider calls itself otherwise than oidc.issuer does.")
            self._told, self._told_at = told, self.clock()
        return self._told

    def address(self, state: str, attempt: LoginAttempt) -> str:
        """Where a browser begins to sign in."""
        with self._client(attempt.redirect_url) as client:
            url, _ = client.create_authorization_url(
                self.metadata()["authorization_endpoint"],
                state=state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return str(url)

    def email(self, code: str, attempt: LoginAttempt) -> str:
        """The address of whoever has signed in, which the provider vouches for."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        told = self.metadata()
        with self._client(attempt.redirect_url) as client:
            try:
                tokens = client.fetch_token(told["token_endpoint"], code=code, code_verifier=attempt.verifier)
                claims = self._claims(str(tokens.get("id_token") or ""), self._read(client, told["jwks_uri"]), attempt)
                if "email" not in claims and "userinfo_endpoint" in told:
                    more = self._read(client, told["userinfo_endpoint"], with_token=True)
                    if more.get("sub") != claims["sub"]:
                        raise LoginError("The provider tells of somebody else.")
                    claims = {**more, **claims}
            except (AuthlibBaseError, JoseError, KeyError, ValueError, TypeError) as error:
                raise LoginError(f"The provider's answer cannot be used ({type(error).__name__}).") from error
            except _failures() as error:
                raise LoginError("The provider does not answer.") from error
        email = claims.get("email")
        if not isinstance(email, str) or "@" not in email:
            raise LoginError("The provider tells no email address.")
        if claims.get("email_verified") is not True and self.config.require_verified:
            raise LoginError("The provider does not vouch for the email address.")
        return email.strip().lower()

    def _claims(self, token: str, keys: Mapping[str, Any], attempt: LoginAttempt) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.jwk import KeySet

        read = jwt.decode(token, KeySet.import_key_set(dict(keys)), algorithms=list(_ALGORITHMS))  # type: ignore[arg-type]
        expected: dict[str, Any] = {
            "iss": {"essential": True, "value": self.config.issuer},
            "aud": {"essential": True, "value": self.config.client_id},
            "nonce": {"essential": True, "value": attempt.nonce},
            **{name: {"essential": True} for name in ("sub", "exp", "iat")},
        }
        jwt.JWTClaimsRegistry(leeway=_LEEWAY_SECONDS, **expected).validate(read.claims)
        party = read.claims.get("azp", self.config.client_id)
        if party != self.config.client_id:
            raise LoginError("The provider's answer is meant for another.")
        return read.claims

    def _read(self, client: OAuth2Client, url: str, with_token: bool = False) -> dict[str, Any]:
        try:
            answer = client.request("GET", url, withhold_token=not with_token)
            answer.raise_for_status()
            told = answer.json()
        except _failures() as error:
            raise LoginError("The provider does not answer.") from error
        if not isinstance(told, dict):
            raise LoginError("The provider does not answer as it has to.")
        return told

    def _client(self, redirect_url: str) -> OAuth2Client:
        from authlib.integrations.httpx_client import OAuth2Client

        secret = self.config.client_secret
        return OAuth2Client(
            self.config.client_id,
            secret.get_secret_value() if secret else None,
            scope="openid email profile",
            redirect_uri=redirect_url,
            code_challenge_method="S256",
            timeout=_PROVIDER_SECONDS,
            trust_env=False,
        )


def _failures() -> tuple[type[Exception], ...]:
    from authlib.integrations.httpx_client._compat import httpx2

    return httpx2.HTTPError, ValueError


@dataclass(slots=True)
class OidcLogin:
    """Signs browsers in that a provider knows, as the principal of the team that has their email address.

    Args:
        sessions: the browsers that have signed in.
    """

    team: Team
    config: OidcConfig
    provider: Provider
    sessions: Sessions
    clock: Callable[[], float] = time.monotonic
    _begun: dict[str, LoginAttempt] = field(default_factory=dict)

    async def begin(self, request: Request) -> Response:
        """Send a browser to the provider, and give it a mark by which it is known when it comes back."""
        base = self.config.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}"
        url = f"{base.rstrip('/')}{PREFIX}{COME_BACK}"
        attempt = LoginAttempt(secrets.token_urlsafe(32), secrets.token_urlsafe(48), url, self.clock())
        state = secrets.token_urlsafe(32)
        try:
            address = await run_sync(self.provider.address, state, attempt)
        except LoginError as error:
            return self._refused(error)
        self._note(state, attempt)
        answer = RedirectResponse(address, 303)
        # Lax: the way back begins at the provider's site.
        answer.set_cookie(
            _COOKIE,
            state,
            max_age=int(_ATTEMPT_SECONDS),
            path=PREFIX + BEGIN,
            httponly=True,
            samesite="lax",
            secure=url.startswith("https:"),
        )
        return answer

    async def come_back(self, request: Request) -> Response:
        """Let a browser in that comes back from the provider."""
        query = request.query_params
        state, code = query.get("state", ""), query.get("code", "")
        attempt = self._begun.pop(sha256_of(state), None)
        is_own = secrets.compare_digest(request.cookies.get(_COOKIE, "").encode(), state.encode())
        try:
            if attempt is None or not is_own or self.clock() - attempt.began_at > _ATTEMPT_SECONDS:
                raise LoginError("This login was not begun here, or too long ago. Begin again.")
            if query.get("iss", self.config.issuer) != self.config.issuer:
                raise LoginError("Another provider has answered.")
            if not code:
                raise LoginError("The provider let nobody in.")
            cookie = await run_sync(self._admit, code, attempt)
        except HarkenError as error:
            _log.info("login_refused", error_class=type(error).__name__)
            return self._refused(error)
        answer = let_in(make_environment(PREFIX, MENU), PREFIX, cookie, request)
        answer.delete_cookie(_COOKIE, path=PREFIX + BEGIN)
        return answer

    def _admit(self, code: str, attempt: LoginAttempt) -> str:
        email = self.provider.email(code, attempt)
        self._ensure_principal(email)
        return self.sessions.admit(partial(self.team.speaker_of, email))

    def _ensure_principal(self, email: str) -> None:
        """Make a principal for an address of one of the domains that everybody may join from.

        Raises:
            LoginError: the address is nobody's, and of no such domain.
        """
        try:
            self.team.speaker_of(email)
        except KeyRefusedError:
            if email.rpartition("@")[2] not in {domain.lower() for domain in self.config.domains}:
                raise LoginError("Nobody in this team has that email address. Ask whoever manages it.") from None
            try:
                self.team.create_principal(self.team.operator(), email, email=email)
            except UsageError as error:
                # Two logins of the same new person at once; else the name is another's.
                _log.warning("principal_not_made", error_class=type(error).__name__)

    def _note(self, state: str, attempt: LoginAttempt) -> None:
        now = self.clock()
        if len(self._begun) >= _MOST_ATTEMPTS:
            kept = {key: each for key, each in self._begun.items() if now - each.began_at < _ATTEMPT_SECONDS}
            # Whoever begins without end pushes out its own, oldest first.
            self._begun = dict(list(kept.items())[-_MOST_ATTEMPTS // 2 :])
        self._begun[sha256_of(state)] = attempt

    def _refused(self, error: HarkenError) -> Response:
        problem = problem_of(error)
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Harken</title>'
        why = f'<p role="alert">{problem.detail}</p><p><a href="{PREFIX}{SIGN_IN}">Sign in</a></p>'
        return HTMLResponse(f"{head}{why}</html>", problem.status)


def oidc_login(config: OidcConfig, team: Team, sessions: Sessions) -> Login:
    """Make the login of the settings.

    Raises:
        ConfigError: the provider is not to be asked over TLS, or we have no name there.
        MissingExtraError: Authlib is not installed.
    """
    from importlib.util import find_spec

    if find_spec("authlib") is None:
        raise MissingExtraError("Signing in by an OpenID provider", "oidc")
    parts = urlsplit(config.issuer or "")
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(f"oidc.issuer: {config.issuer} is not asked over TLS. Use https://…")
    if not config.client_id:
        raise ConfigError("oidc.client_id: name what the provider knows this server by.")
    login = OidcLogin(team, config, Provider(config), sessions)
    routes = [Route(BEGIN, login.begin, methods=["GET"]), Route(COME_BACK, login.come_back, methods=["GET"])]
    return Login(config.name, routes)
