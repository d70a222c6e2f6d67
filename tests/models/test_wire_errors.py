from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from loopwright import errors
from loopwright.models.wire_errors import (
    Peer,
    error_in_answer,
    error_in_stream,
    from_exception,
    from_response,
    public_url,
    retry_after_s,
)

KEY = "sk-very-secret-1234"
PEER = Peer("acme", "https://api.acme.test/v1", key_hint="the key comes from ACME_API_KEY", secrets=[KEY, None, ""])


def answered(status: int, body: Any = None, headers: dict[str, str] | None = None) -> errors.ModelError:
    text = body if isinstance(body, bytes) else json.dumps(body or {"error": {"message": "no"}}).encode()
    return from_response(PEER, status, headers or {}, text)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, errors.BadRequestError, False),
        (401, errors.AuthenticationError, False),
        (402, errors.RateLimitError, False),
        (403, errors.PermissionDeniedError, False),
        (404, errors.NotFoundError, False),
        (405, errors.BadRequestError, False),
        (408, errors.ModelTimeoutError, True),
        (409, errors.BadRequestError, True),
        (410, errors.NotFoundError, False),
        (413, errors.BadRequestError, False),
        (422, errors.BadRequestError, False),
        (425, errors.BadRequestError, True),
        (429, errors.RateLimitError, True),
        (498, errors.RateLimitError, True),
        (500, errors.ServerError, True),
        (502, errors.ServerError, True),
        (503, errors.ServerError, True),
        (504, errors.ServerError, True),
        (529, errors.ServerError, True),
        (307, errors.BadRequestError, False),
    ],
)
def test_the_table_of_statuses(status: int, kind: type[errors.ModelError], retryable: bool):
    error = answered(status)
    assert (type(error), error.status_code, error.retryable) == (kind, status, retryable)


@pytest.mark.parametrize(
    ("body", "sentence", "code"),
    [
        ({"error": {"message": "Bad thing.", "code": "bad", "type": "t"}}, "Bad thing.", "bad"),
        ({"error": {"message": "Bad thing.", "type": "t", "code": None}}, "Bad thing.", "t"),
        ({"error": "Bad thing."}, "Bad thing.", None),
        ({"message": "Bad thing.", "code": 1301}, "Bad thing.", "1301"),
        ({"object": "error", "message": "Bad thing.", "type": "BadRequestError"}, "Bad thing.", "BadRequestError"),
        ({"detail": "Bad thing."}, "Bad thing.", None),
        (
            {"detail": [{"loc": ["body", "n"], "msg": "Bad thing."}, {"msg": "More."}]},
            "body.n: Bad thing.; More.",
            None,
        ),
        ({"message": {"detail": [{"loc": ["body"], "msg": "Bad."}]}}, "body: Bad.", None),
        ([{"error": {"code": 400, "message": "Bad thing.", "status": "INVALID"}}], "Bad thing.", "400"),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": '{"why": "Bad thing."}'}}},
            'Provider returned error ({"why": "Bad thing."})',
            None,
        ),
        (b"<html>  Bad\n gateway </html>", "<html> Bad gateway </html>", None),
        (b"", "no reason was given", None),
        (b'"Bad thing."', "Bad thing.", None),
        (b"7", "7", None),
        (b"\xff\xfe", "\ufffd\ufffd", None),
    ],
)
def test_the_providers_own_sentence_in_every_shape(body: Any, sentence: str, code: str | None):
    error = answered(400, body)
    assert str(error) == f"acme answered 400: {sentence}"
    assert error.code == code


def test_a_long_body_is_cut():
    error = answered(500, b"x" * 5000)
    assert len(str(error)) < 400
    assert len(error.body) == 2000


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x", "code": "context_length_exceeded"}},
        {"error": {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000."}},
        {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}},
        {"message": "Range of input length should be [1, 30720]"},
        {"error": {"message": "the request exceeds the available context size", "code": 400}},
    ],
)
def test_a_conversation_that_is_too_long(body: Any):
    error = answered(400, body)
    assert type(error) is errors.ContextLengthError
    assert "shorten the history" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x", "code": "insufficient_quota"}},
        {"error": {"message": "You exceeded your current quota, please check your plan", "code": None}},
        {"error": {"code": "1113", "message": "in arrears"}},
    ],
)
def test_an_empty_account_is_not_worth_another_try(body: Any):
    for headers in ({}, {"x-should-retry": "true"}):
        error = answered(429, body, headers)
        assert (type(error), error.retryable) == (errors.RateLimitError, False)


def test_advice():
    assert "(the key comes from ACME_API_KEY)" in str(answered(401))
    assert "asked at https://api.acme.test/v1" in str(answered(404))


def test_the_provider_may_say_whether_to_retry():
    assert answered(500, headers={"x-should-retry": "false"}).retryable is False
    assert answered(400, headers={"x-should-retry": "true"}).retryable is True
    assert answered(401, headers={"x-should-retry": "true"}).retryable is False


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None):
    now = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT
    assert retry_after_s(headers, now) == seconds


def test_the_wait_is_on_the_error():
    assert answered(429, headers={"retry-after": "7"}).retry_after == 7.0


def test_a_date_is_measured_against_the_clock():
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}) == 0.0


# -- inside of a success --------------------------------------------------------------------------------------------


def test_an_error_in_a_successful_answer():
    filtered = {"error": {"message": "The prompt was filtered.", "code": "content_filter", "status": 400}}
    error = error_in_answer(PEER, filtered)
    assert type(error) is errors.BadRequestError
    assert str(error) == "acme answered 200 with an error inside: The prompt was filtered."
    assert (error.status_code, error.code, error.body) == (400, "content_filter", filtered)
    limited = error_in_answer(PEER, {"error": {"code": 429, "message": "slow down"}})
    assert (type(limited), limited and limited.retryable) == (errors.RateLimitError, True)
    unnamed = error_in_answer(PEER, {"error": {}, "choices": []})
    assert unnamed is None
    assert error_in_answer(PEER, []) is None
    assert "without a reason" in str(error_in_answer(PEER, {"error": True}))


def test_an_error_in_a_stream():
    error = error_in_stream(PEER, {"error": {"code": 503, "message": "overloaded"}})
    assert (type(error), error.status_code, error.retryable) == (errors.StreamError, 503, True)
    assert str(error) == "acme reported an error inside the stream: overloaded"
    error = error_in_stream(PEER, {"error": "odd"})
    assert (error.status_code, error.retryable) == (None, False)
    assert "without a reason" in str(error_in_stream(PEER, {}))


# -- what the HTTP client raises ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "received", "kind", "words"),
    [
        (httpx2.ConnectTimeout("t"), None, errors.ModelTimeoutError, "no connection was made"),
        (httpx2.PoolTimeout("t"), None, errors.ModelTimeoutError, "no connection was free"),
        (httpx2.WriteTimeout("t"), None, errors.ModelTimeoutError, "could not be sent"),
        (httpx2.ReadTimeout("t"), None, errors.ModelTimeoutError, "nothing came"),
        (httpx2.ReadTimeout("t"), 0, errors.ModelTimeoutError, "nothing came"),
        (httpx2.ReadTimeout("t"), 12, errors.ModelTimeoutError, "fell silent after 12 bytes"),
        (TimeoutError(), None, errors.ModelTimeoutError, "in time"),
        (httpx2.ConnectError("refused"), None, errors.ModelConnectionError, "no connection to acme at https://"),
        (httpx2.ProxyError("403"), None, errors.ModelConnectionError, "the proxy on the way to acme refused: 403"),
        (httpx2.RemoteProtocolError("eof"), 5, errors.ModelConnectionError, "broke after 5 bytes of its answer: eof"),
        (httpx2.UnsupportedProtocol("ftp"), None, errors.UsageError, "Check base_url"),
        (httpx2.InvalidURL("bad"), None, errors.UsageError, "Check base_url"),
        (OSError(), None, errors.ModelConnectionError, "OSError"),
    ],
)
def test_exceptions_of_the_http_client(raised: Exception, received: int | None, kind: type[Exception], words: str):
    error = from_exception(PEER, raised, received)
    assert type(error) is kind
    assert words in str(error)


def test_a_local_server_may_not_be_running():
    error = from_exception(Peer("vllm", "http://localhost:8000/v1"), httpx2.ConnectError("refused"))
    assert str(error).endswith("Is the server running?")


# -- secrets --------------------------------------------------------------------------------------------------------


def test_the_key_is_in_no_error():
    """Also where the provider echoes it, in the text, the body or the exception."""
    said = {"error": {"message": f"Incorrect key {KEY}", "param": [KEY], "code": 400}}
    found = [
        answered(401, said),
        answered(500, f"<p>{KEY}</p>".encode()),
        error_in_answer(PEER, said),
        error_in_stream(PEER, said),
        from_exception(PEER, httpx2.ConnectError(f"header {KEY}")),
    ]
    for error in found:
        assert isinstance(error, errors.ModelError)
        assert KEY not in f"{error} {error!r} {error.body!r} {error.code}"
    assert KEY not in repr(PEER)


def test_addresses_are_shown_without_secrets():
    assert public_url("https://me:pass@host.test:8/v1/x?key=1") == "https://host.test:8/v1/x"
    assert public_url("https://host.test") == "https://host.test"
