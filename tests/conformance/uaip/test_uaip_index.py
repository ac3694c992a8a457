"""Every decision on UAIP 0.1.0, A1 to A31 and D1 to D15, has a vector or a named test."""

import importlib.util
import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
ITEMS = {f"A{number}" for number in range(1, 32)} | {f"D{number}" for number in range(1, 16)}

# What a request cannot show, or not all of it: the reason, the file and the test.
FURTHER_TESTS = {
    "A7": (
        "validators of a model are code",
        "tests/python/uaip/test_prerequisite_models.py",
        "test_validators_of_models_refuse_values_that_match_the_schema",
    ),
    "A16": (
        "two servers on one store need two processes",
        "tests/python/uaip/test_killed_server.py",
        "test_kills_between_and_inside_of_actions_lose_and_double_nothing",
    ),
    "A17": (
        "the sweeper deletes what no request finds any more",
        "crates/turntree-uaip/tests/it/conformance/lifecycle.rs",
        "d14_a17_idle_and_old_sessions_expire_and_are_swept",
    ),
    "D15": (
        "an address that others can reach needs authentication when the server starts",
        "crates/turntree-server/tests/it/authentication.rs",
        "an_open_address_needs_an_authenticator",
    ),
}


def cases():
    for path in sorted(FOLDER.glob("*.json")):
        yield from json.loads(path.read_text("utf-8")).get("cases", ())


def test_every_decision_has_a_vector():
    found = {item for case in cases() for item in case["items"]}

    assert found == ITEMS


def test_the_further_tests_exist():
    for item, (reason, file, name) in FURTHER_TESTS.items():
        assert item in ITEMS
        assert reason
        assert re.search(rf"(def|fn) {name}\b", (ROOT / file).read_text("utf-8")), f"{item}: {file} has no {name}"


def test_cases_have_unique_names_and_all_workflows_are_used():
    names = [case["id"] for case in cases()]
    used = {name for case in cases() for name in case.get("workflows", ())}
    defined = [made["name"] for made in json.loads((FOLDER / "workflows.json").read_text("utf-8"))["workflows"]]

    assert len(names) == len(set(names))
    assert used == set(defined)
    assert len(defined) == len(set(defined))


def test_uvicorn_is_there_so_that_both_faces_are_tested():
    assert importlib.util.find_spec("uvicorn") is not None
