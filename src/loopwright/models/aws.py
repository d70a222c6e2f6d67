"""Requests to AWS, signed with its Signature Version 4 by botocore (extra `bedrock`), and where they go.

Rules:

- botocore is imported when the first request is signed. What it signs with is found in its own way: the given keys, a
  profile, the environment, the machine's role. Whoever has a Bedrock API key needs none of it;
- only what must not change on the way is signed: address, body, content type.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from loopwright.errors import MissingExtraError, UsageError

__all__ = ["Signer", "region_of"]


class Signer:
    """A function for `auth`: the headers that sign one request. Keys are hidden in its printed form."""

    def __init__(
        self,
        service: str,
        region: str,
        *,
        profile: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
    ) -> None:
        self.service = service
        self.region = region
        self._given = {
            "profile": profile,
            "access_key": access_key,
            "secret_key": secret_key,
            "session_token": session_token,
        }
        self._credentials: Any = None

    def __repr__(self) -> str:
        return f"Signer({self.service!r}, {self.region!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.service, self.region, self._given)

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Raises `UsageError` where there are no credentials, `MissingExtraError` without botocore."""
        try:
            from botocore.auth import SigV4Auth  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
            from botocore.awsrequest import AWSRequest  # pyright: ignore[reportMissingTypeStubs]
        except ImportError as error:
            raise MissingExtraError(
                "signing requests to AWS needs botocore: pip install 'loopwright[bedrock]', or give a Bedrock API key"
            ) from error
        signed: Any = AWSRequest(
            method=method, url=url, data=body, headers={"content-type": headers.get("content-type", "")}
        )
        signer: Any = SigV4Auth
        signer(self._found(), self.service, self.region).add_auth(signed)
        return {name.lower(): str(value) for name, value in signed.headers.items() if name.lower() != "content-type"}

    def _found(self) -> Any:
        """The credentials. botocore renews those that run out."""
        if self._credentials is None:
            from botocore import credentials, session  # pyright: ignore[reportMissingTypeStubs]

            made: Any = credentials.Credentials
            found: Any = session.Session
            keys = [self._given[name] for name in ("access_key", "secret_key", "session_token")]
            known: Any = made(*keys) if keys[0] else found(profile=self._given["profile"]).get_credentials()
            if known is None:
                raise UsageError(
                    "no AWS credentials: give aws_access_key_id= and aws_secret_access_key=, a "
                    "credentials_profile_name=, or set up the environment as for the AWS command line"
                )
            self._credentials = known
        credentials_now: Any = self._credentials.get_frozen_credentials()
        return credentials_now


def _remade(service: str, region: str, given: dict[str, str | None]) -> Signer:
    return Signer(service, region, **given)


def region_of(given: str | None) -> str:
    """The region of an endpoint. Raises `UsageError` where nothing says it."""
    region = given or os.environ.get("AWS_REGION", "").strip() or os.environ.get("AWS_DEFAULT_REGION", "").strip()
    if not region:
        raise UsageError('Bedrock has an address for each region: give region_name="us-east-1" or set AWS_REGION')
    return region
