"""A workflow with an error is refused when it is defined, with a message that says where and what to do."""

import dataclasses
import inspect
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from turntree import ToolContext, uaip
from turntree.uaip import DefinitionError, State, StateTransfer, Workflow
from turntree.upp import tool


def shop() -> Workflow:
    made = Workflow("shop", "Sells things.", private=["total"])
    made.stage("browse")
    made.stage("cart", prerequisites=["product"])
    made.transition("browse", "cart")
    return made


def definition_of(made: Workflow) -> dict:
    return made._definition()


def task_of(made: Workflow, name: str) -> dict:
    stages = definition_of(made)["stages"]
    return next(task for stage in stages for task in stage["tasks"] if task["name"] == name)


def test_the_schema_of_arguments_comes_from_the_annotations():
    made = shop()

    @made.task(stage="browse")
    async def search(
        query: Annotated[str, Field(min_length=1)], state: State, context: ToolContext, limit: int = 10
    ) -> list[str]:
        """Search the catalogue.

        Args:
            query: What to look for.
        """
        return []

    definition = task_of(made, "search")

    assert definition["description"] == "Search the catalogue."
    assert definition["returns"] == {"items": {"type": "string"}, "type": "array"}
    properties = definition["parameters"]["properties"]
    assert list(properties) == ["query", "limit"]
    assert properties["query"] == {"minLength": 1, "type": "string", "description": "What to look for."}
    assert properties["limit"]["default"] == 10
    assert definition["parameters"]["required"] == ["query"]
    assert inspect.iscoroutinefunction(search)
    made.check()


def test_results_can_be_models_and_dataclasses():
    class Model(BaseModel):
        total: int

    @dataclasses.dataclass
    class Data:
        total: int

    made = shop()
    for kind in (Model, Data):

        def total() -> None: ...

        total.__name__ = f"total_of_{kind.__name__}"
        made.task(stage="browse", output=kind)(total)

    for kind in (Model, Data):
        returns = task_of(made, f"total_of_{kind.__name__}")["returns"]
        assert returns["properties"]["total"]["type"] == "integer"


def test_a_tool_is_a_task_with_its_name_and_description():
    @tool(name="refund_order", description="Pays back.", approval="ask")
    def refund(order: str) -> str:
        return order

    made = shop()
    made.task(stage="browse")(refund)

    assert task_of(made, "refund_order")["description"] == "Pays back."


def test_a_parameter_without_a_schema_names_the_task_and_its_place():
    made = shop()

    with pytest.raises(DefinitionError, match=r'task "broken" \(test_definitions.py:\d+\): parameter') as caught:

        @made.task(stage="browse")
        def broken(*names: str) -> None: ...

    assert "write it as an ordinary parameter" in str(caught.value)


@pytest.mark.parametrize(
    ("stage", "remedy"),
    [("browes", 'did you mean "browse"?'), ("x", 'the stages are browse, cart; add it with stage("x")')],
)
def test_a_task_of_an_unknown_stage_says_which_stages_there_are(stage, remedy):
    made = shop()

    @made.task(stage=stage)
    def search() -> None: ...

    with pytest.raises(DefinitionError) as caught:
        made.check()

    assert f'unknown stage "{stage}"; {remedy}' in str(caught.value)
    assert "test_definitions.py:" in str(caught.value)


def test_a_reserved_task_name_is_refused_with_its_place():
    made = shop()

    @made.task(stage="browse", name="transition_stage")
    def move() -> None: ...

    with pytest.raises(DefinitionError, match=r"is reserved.*rename the task \(defined at test_definitions.py:\d+\)"):
        made.check()


def test_a_transition_to_an_unknown_stage_is_refused():
    made = shop()
    made.transition("cart", "done")

    with pytest.raises(DefinitionError, match='names the unknown stage "done"; the stages are browse, cart'):
        made.check()


def test_an_unreachable_stage_is_refused():
    made = shop()
    made.stage("attic")

    with pytest.raises(DefinitionError, match='the stages "attic" cannot be reached from the initial stage "browse"'):
        made.check()


def test_a_private_prerequisite_that_nothing_writes_is_refused():
    made = Workflow("shop", private=["total"])
    made.stage("browse")
    made.stage("pay", prerequisites="total")
    made.transition("browse", "pay")

    @made.task(stage="browse", writes=[])
    def search() -> None: ...

    with pytest.raises(DefinitionError, match='the prerequisite "total" can never be met'):
        made.check()


def test_a_workflow_can_be_corrected_after_an_error():
    made = shop()
    made.transition("cart", "done")
    with pytest.raises(DefinitionError):
        made.check()

    made.stage("done")

    made.check()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Workflow("w", private="total"), "private must be a list of keys, not a str"),
        (lambda: Workflow("w", agent_writable=3), "agent_writable must be a list of keys, not int"),
        (lambda: Workflow("w", agent_writable=[3]), "agent_writable: expected names of keys, got int"),
        (lambda: Workflow(None), "name must be a str, not NoneType"),
        (lambda: Workflow("w").stage(3), "name of a stage must be a str, not int"),
        (
            lambda: Workflow("w").stage("a", on_enter=3),
            'on_enter of stage "a" must be a function of the state, not int',
        ),
        (lambda: Workflow("w").task(stage="a")(3), "a task must be a function, not int"),
        (lambda: Workflow("w").task(stage="a", writes="total")(print), "writes must be a list of keys, not a str"),
        (lambda: Workflow("w").transition(3, "a"), "a stage is given by its name or its class, not by 3"),
        (lambda: Workflow("w").stage("a")(lambda: None), "decorates a class whose docstring describes it"),
        (lambda: uaip.task(lambda: None), "with parentheses"),
        (lambda: uaip.workflow_of("shop"), "expected a Workflow"),
    ],
)
def test_a_wrong_argument_is_a_type_error(call, message):
    with pytest.raises(TypeError, match="(?s)" + message.replace("(", r"\(")):
        call()


def test_a_stage_or_transition_that_exists_is_refused():
    with pytest.raises(DefinitionError, match='two stages are named "cart"'):
        shop().stage("cart")
    with pytest.raises(DefinitionError, match='two transitions from "browse" to "cart"'):
        shop().transition("browse", "cart")


def test_a_hook_with_a_parameter_that_has_no_value_is_refused():
    with pytest.raises(DefinitionError, match="the parameter 'order' has no value"):
        shop().stage("done", on_enter=lambda state, order: None)


def test_a_stage_decorates_a_class_whose_docstring_describes_it():
    made = Workflow("shop")

    @made.stage("browse")
    class Browse:
        """Look around
        in the shop."""

    @made.task(stage=Browse)
    def search() -> None: ...

    made.stage("cart")
    made.transition(Browse, "cart")

    assert isinstance(Browse, type)
    assert definition_of(made)["stages"][0]["description"] == "Look around in the shop."
    assert made.initial_stage == "browse"


def test_a_state_of_a_model_gives_the_schema_of_the_keys():
    class Cart(BaseModel):
        items: list[str]

    made = Workflow("shop", state=Cart)
    made.stage("browse")

    assert definition_of(made)["state_schema"]["properties"]["items"]["type"] == "array"


def test_a_prerequisite_that_is_neither_name_nor_model_is_refused():
    made = Workflow("shop")
    made.stage("browse")
    made.stage("pay", prerequisites=[3])
    made.transition("browse", "pay")

    with pytest.raises(DefinitionError, match="expected names of keys, or models whose fields are keys, got int"):
        made.check()


@uaip.construct()
class Address(BaseModel):
    street: str


@uaip.stage(name="find")
class Find:
    """Find a product."""

    @uaip.task(description="Look it up.")
    def search(self, state: State, query: str) -> list[str]:
        state.set("query", query)
        return [query]

    def on_exit(self, state):
        state.set("left", True)


@uaip.stage(prerequisites=[Address])
class Deliver:
    @uaip.task(name="send", output=bool, timeout=3)
    async def send_it(self) -> bool:
        return True


def delivery() -> type:
    @uaip.workflow(name="delivery")
    class Delivery:
        """Finds and sends."""

        first = Find
        deliver = Deliver
        transitions = {first: [deliver]}
        state_management = [(first, deliver, ["query"])]

        @uaip.task(stage="deliver")
        def track(self) -> str:
            return "under way"

    return Delivery


def test_decorated_classes_make_a_workflow():
    made = uaip.workflow_of(delivery())

    definition = definition_of(made)

    assert definition["description"] == "Finds and sends."
    assert [stage["name"] for stage in definition["stages"]] == ["find", "deliver"]
    assert [task["name"] for task in definition["stages"][1]["tasks"]] == ["send", "track"]
    assert definition["stages"][0]["on_exit"] is True
    assert task_of(made, "search")["parameters"]["required"] == ["query"]
    assert task_of(made, "send")["timeout"] == 3
    assert definition["transitions"] == [{"from": "find", "to": "deliver", "guarded": False}]
    assert definition["state_management"] == [{"from": "find", "to": "deliver", "copies": {"keys": ["query"]}}]
    assert definition["stages"][1]["prerequisites"][0]["model"] == "Address"


@pytest.mark.parametrize(("copies", "written"), [(StateTransfer.ALL, "all"), (StateTransfer.NONE, "none")])
def test_state_management_copies_everything_or_nothing(copies, written):
    @uaip.workflow()
    class Two:
        one = Find
        two = Deliver
        transitions = {"one": ["two"]}
        state_management = [("one", "two", copies)]

    assert definition_of(uaip.workflow_of(Two))["state_management"][0]["copies"] == written


def test_d10_two_workflows_can_share_a_stage():
    first, second = uaip.workflow_of(delivery()), uaip.workflow_of(delivery())

    second._stages["deliver"].tasks.clear()

    assert [task["name"] for task in definition_of(first)["stages"][1]["tasks"]] == ["send", "track"]


def test_a_stage_of_another_workflow_in_transitions_is_refused():
    class Other: ...

    with pytest.raises(DefinitionError, match="'Other' is not one of its stages"):

        @uaip.workflow(name="wrong")
        class Wrong:
            one = Find
            transitions = {one: [Other]}


def test_a_class_without_stages_is_refused():
    with pytest.raises(DefinitionError, match="the class has no stages"):

        @uaip.workflow()
        class Empty: ...


def test_a_stage_that_needs_arguments_is_refused():
    @uaip.stage()
    class Needs:
        def __init__(self, database):
            self.database = database

    with pytest.raises(DefinitionError, match="created without arguments, and that fails"):

        @uaip.workflow()
        class Wrong:
            needs = Needs
