"""Requests that are made from the OpenAPI document get the answers that it describes, and none of 500 or more."""

import os

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from uaip_support import shop

from turntree import uaip

schemathesis = pytest.importorskip("schemathesis")

# How many requests are made at least; `make test-long` asks for more.
CASES = int(os.environ.get("TURNTREE_OPENAPI_CASES", "160"))
# Four of the 8 operations have parameters or bodies; the others are exhausted after one request.
EXAMPLES = CASES // 4 + CASES // 20


@pytest.mark.timeout(200 + CASES)
@pytest.mark.filterwarnings("ignore")
def test_requests_made_from_the_openapi_document_are_answered_as_it_says():
    cases = 0
    with uaip.serve_sync(shop()) as server, httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def check(case):
                nonlocal cases
                cases += 1
                if "X-Session-Id" in (case.headers or {}):
                    session = http.post("/initialize", json={"workflow_name": "shop"}).json()["session_id"]
                    case.headers["X-Session-Id"] = session
                if "session_id" in (case.path_parameters or {}):
                    session = http.post("/initialize", json={"workflow_name": "shop"}).json()["session_id"]
                    case.path_parameters["session_id"] = session
                answer = case.call()
                assert answer.status_code < 500, answer.text
                # An action of another stage is refused with 422, which no schema can say.
                is_action = case.path == "/execute"
                excluded = [schemathesis.checks.positive_data_acceptance] if is_action else []
                case.validate_response(answer, excluded_checks=excluded)

            check()

    print(f"{cases} cases")
    assert cases >= CASES
