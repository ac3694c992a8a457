"""Thread trees in Python. UAP-1.0 §7 and §13.2."""

import copy
import gc
import json
import pickle
import threading
import uuid

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter
from pydantic import ValidationError as PydanticValidationError

import turntree
from turntree import ThreadNode, ThreadTree, agent
from turntree.upp import AssistantMessage, Thread, ToolResultMessage, UserMessage, scripted

SAMPLE = {
    "rootId": "node_root",
    "currentId": "node_branch1",
    "nodes": [
        {
            "id": "node_root",
            "parentId": None,
            "name": "main",
            "thread": {
                "id": "thread_001",
                "messages": [
                    {
                        "id": "m1",
                        "type": "user",
                        "content": [{"type": "text", "text": "Hi"}],
                        "timestamp": "2024-01-15T10:30:00.000Z",
                    }
                ],
            },
            "children": ["node_branch1"],
            "metadata": {},
        },
        {
            "id": "node_branch1",
            "parentId": "node_root",
            "name": "alternative",
            "thread": {"id": "thread_002", "messages": []},
            "children": [],
            "metadata": {},
        },
    ],
}


def texts(messages):
    return [message.text for message in messages]


def grown():
    """A tree whose main node has three messages, with a branch after the second that has one message."""
    tree = ThreadTree()
    tree.push(UserMessage("Create a web server", id="m1"), AssistantMessage("Done", id="m2"))
    other = tree.branch(tree.current.id, "alternative")
    tree.push(UserMessage("Add middleware", id="m3"))
    tree.checkout(other)
    tree.current.thread.push(UserMessage("Use Express instead", id="m4"))
    return tree, other


def values():
    tree, other = grown()
    return [tree, tree[other], tree.root, tree.root.thread, tree.diff(tree.root.id, other)]


each = pytest.mark.parametrize("value", values(), ids=lambda value: type(value).__name__)


async def test_usage_example_of_the_specification_works():
    helper = agent(model=scripted(["A server.", "An Express server.", "With middleware."]))
    tree = ThreadTree()

    turn1 = await helper.run(tree.history(), "Create a web server")
    tree.current.thread.append(turn1)
    alternative = tree.branch(tree.current.id, "alternative-framework")
    tree.checkout(alternative)
    turn2 = await helper.run(tree.history(), "Use Express instead")
    tree.current.thread.append(turn2)
    tree.checkout(tree.root.id)
    turn3 = await helper.run(tree.history(), "Add middleware")
    tree.append(turn3)

    assert texts(tree.history()) == [
        "Create a web server",
        "A server.",
        "Add middleware",
        "With middleware.",
    ]
    assert texts(tree.history(alternative)) == [
        "Create a web server",
        "A server.",
        "Use Express instead",
        "An Express server.",
    ]


def test_a_new_tree_has_one_node():
    tree = ThreadTree()

    assert tree.root == tree.current
    assert (tree.root.name, tree.root.parent_id, tree.root.children) == ("main", None, [])
    assert tree.root.metadata == {}
    assert uuid.UUID(tree.root.id).version == 4
    assert list(tree) == list(tree.nodes) == [tree.root.id]
    assert len(tree) == 1
    assert tree.history() == []


def test_tree_can_start_with_a_thread():
    thread = Thread([UserMessage("one")])

    tree = ThreadTree(thread)
    tree.push(UserMessage("two"))

    assert texts(tree.history()) == ["one", "two"]
    assert texts(thread) == ["one"]
    assert tree.root.thread.id == thread.id
    assert tree.root.thread.created_at == thread.created_at
    assert texts(ThreadTree([UserMessage("x")]).history()) == ["x"]
    with pytest.raises(TypeError, match="thread must be a Thread or a list of messages, not int"):
        ThreadTree(3)


def test_a_branch_can_begin_after_any_message_of_a_node():
    tree = ThreadTree()
    tree.push(UserMessage("a"), AssistantMessage("b"), UserMessage("c"), AssistantMessage("d"))
    later = tree.branch(tree.root.id, "later")

    first, middle = tree.branch(tree.root.id, after=0), tree.branch(tree.root.id, "middle", after=2)

    assert [message.text for message in tree.history(middle)] == ["a", "b"]
    assert (tree[middle].branch_point, tree[middle].name, tree.history(first)) == (2, "middle", [])
    assert len(tree.history(later)) == len(tree.history()) == 4
    assert ThreadTree.from_json(tree.to_json()) == tree
    with pytest.raises(ValueError, match=r"has 4 messages; `after` must be at most 4, not 5"):
        tree.branch(tree.root.id, after=5)
    with pytest.raises(KeyError):
        tree.branch("missing", after=0)


def test_branch_does_not_change_the_current_node():
    tree = ThreadTree()

    branch = tree.branch(tree.root.id, "x")

    assert tree.current == tree.root
    assert uuid.UUID(branch).version == 4
    assert tree[branch].parent_id == tree.root.id
    assert tree[branch].branch_point == 0
    assert tree.root.children == [branch]
    assert branch in tree
    assert "x" not in tree
    assert 3 not in tree
    assert tree.leaves() == [tree[branch]]


def test_node_handles_reflect_every_change():
    tree, other = grown()
    root, node = tree.root, tree[other]

    node.thread.user("More").assistant("Sure")
    node.name = "express"
    node.metadata = {**node.metadata, "stars": 5}
    deeper = tree.branch(other)

    assert texts(tree.history()) == [
        "Create a web server",
        "Done",
        "Use Express instead",
        "More",
        "Sure",
    ]
    assert tree.current.name == "express"
    assert tree.nodes[other].metadata == {"stars": 5}
    assert node.children == [deeper]
    assert root.children == [other]
    assert tree[deeper].name is None
    node.name = None
    assert tree[other].name is None
    with pytest.raises(ValueError, match="branchPoint"):
        node.metadata = {"branchPoint": 1}
    with pytest.raises(TypeError, match="metadata must be a dict, not list"):
        node.metadata = []


def test_thread_of_a_node_has_the_thread_interface():
    tree, other = grown()
    thread = tree.root.thread

    assert len(thread) == 3
    assert texts(thread) == texts(thread.messages)
    assert thread[-1].text == "Add middleware"
    assert texts(thread.tail(1)) == ["Add middleware"]
    assert texts(thread.filter("assistant")) == ["Done"]
    assert texts(thread.slice(1)) == ["Done", "Add middleware"]
    assert type(thread.slice(1)) is Thread
    assert thread.updated_at >= thread.created_at
    with pytest.raises(IndexError):
        thread[3]
    with pytest.raises(ValueError, match="type must be"):
        thread.filter("owl")
    with pytest.raises(ValueError, match="1 branch"):
        thread.clear()
    assert len(tree[other].thread.clear()) == 0


def test_merge_adds_missing_messages_once():
    tree, other = grown()

    assert tree.merge(other, tree.root.id) == 1
    assert tree.merge(other, tree.root.id) == 0

    assert texts(tree.history(tree.root.id))[-2:] == ["Add middleware", "Use Express instead"]
    assert tree.root.metadata == {"mergedFrom": [other]}
    assert tree.diff(tree.root.id, other).only_b == []
    assert texts(tree.diff(tree.root.id, other).only_a) == ["Add middleware"]


def test_diff_returns_the_ancestor_and_both_sides():
    tree, other = grown()

    diff = tree.diff(tree.root.id, other)

    assert diff.ancestor_id == tree.root.id
    assert diff.common == 2
    assert texts(diff.only_a) == ["Add middleware"]
    assert (diff.id_a, diff.id_b) == (tree.root.id, other)
    assert (diff.name_a, diff.name_b) == ("main", tree[other].name)
    assert texts(diff.only_b) == ["Use Express instead"]


@pytest.mark.parametrize(
    "call",
    [
        lambda tree: tree.branch("nobody"),
        lambda tree: tree.checkout("nobody"),
        lambda tree: tree.merge("nobody", tree.root.id),
        lambda tree: tree.merge(tree.root.id, "nobody"),
        lambda tree: tree.history("nobody"),
        lambda tree: tree.diff(tree.root.id, "nobody"),
        lambda tree: tree["nobody"],
    ],
)
def test_unknown_id_raises_key_error_with_the_id(call):
    with pytest.raises(KeyError, match='no node has the id \\\\?"nobody\\\\?"'):
        call(ThreadTree())


def test_sample_document_of_the_specification_loads():
    tree = ThreadTree.from_json(json.dumps(SAMPLE))

    assert tree == ThreadTree.from_json(SAMPLE) == ThreadTree.model_validate(SAMPLE)
    assert tree.current.name == "alternative"
    assert texts(tree.history()) == ["Hi"]
    assert tree.current.branch_point == 1
    written = tree.to_dict()
    assert list(written) == ["rootId", "currentId", "nodes"]
    for node, sample in zip(written["nodes"], SAMPLE["nodes"], strict=True):
        assert list(node) == list(sample)
        assert node["thread"]["messages"] == sample["thread"]["messages"]
    assert written["nodes"][1]["metadata"] == {"branchPoint": 1}


def test_each_message_is_written_once():
    tree, other = grown()
    for _ in range(10):
        other = tree.branch(other)

    assert tree.to_json().count("Create a web server") == 1
    again = ThreadTree.from_json(tree.to_json())
    assert again == tree
    assert texts(again.history(other)) == texts(tree.history(other))


def test_invalid_tree_is_rejected_with_the_path_of_the_error():
    broken = copy.deepcopy(SAMPLE)
    broken["nodes"][1]["parentId"] = "nowhere"

    for load in (ThreadTree.from_json, ThreadTree.model_validate):
        with pytest.raises(turntree.ValidationError) as caught:
            load(broken)
        (error,) = caught.value.errors()
        assert error["pointer"] == "/nodes/1/parentId"
        assert error["loc"] == ("nodes", 1, "parentId")
        assert "nowhere" in error["msg"]
    with pytest.raises(PydanticValidationError, match="/nodes/1/parentId"):
        TypeAdapter(ThreadTree).validate_python(broken)
    with pytest.raises(turntree.ValidationError, match="must not be empty"):
        ThreadNode.model_validate({**SAMPLE["nodes"][0], "id": ""})


def test_snake_case_names_are_read_and_written_on_request():
    tree, _ = grown()

    dump = tree.model_dump(by_alias=False)

    assert set(dump) == {"root_id", "current_id", "nodes"}
    assert dump["nodes"][1]["parent_id"] == tree.root.id
    assert dump["nodes"][1]["metadata"] == {"branchPoint": 2}
    assert ThreadTree.model_validate(dump) == tree


@each
def test_trees_and_nodes_support_the_data_methods(value):
    cls = type(value)

    assert cls.model_validate_json(value.model_dump_json()) == value
    assert cls.model_validate(value.model_dump()) == value
    assert cls.model_validate(value) is value
    assert cls.from_json(value.to_dict()) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert value != 3
    schema = cls.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(value.to_dict(), schema)
    adapter = TypeAdapter(list[cls])
    assert adapter.validate_json(adapter.dump_json([value])) == [value]
    assert repr(value).startswith(cls.__name__ + "(")


def test_handles_are_not_hashable_and_diffs_are():
    tree, other = grown()

    for value in (tree, tree.root, tree.root.thread):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)
    assert hash(tree.diff(tree.root.id, other)) == hash(tree.diff(tree.root.id, other))


def test_copies_are_independent():
    tree, other = grown()
    for twin in (copy.copy(tree), copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        twin.push(UserMessage("only here"))
        twin.checkout(twin.root.id)
        assert len(twin.history(other)) == len(tree.history(other)) + 1
        assert tree.current.id == other
    node = copy.copy(tree[other])
    node.thread.user("only here")
    node.name = "apart"
    node.metadata = {"x": 1}
    assert len(node.thread) == len(tree[other].thread) + 1
    assert tree[other].name == "alternative"
    assert len(node.thread.clear()) == 0
    with pytest.raises(ValueError, match="branchPoint"):
        node.metadata = {"branchPoint": 1}


def test_trees_work_as_pydantic_fields_and_in_fastapi():
    class Saved(BaseModel):
        tree: ThreadTree

    tree, _ = grown()
    assert Saved.model_validate_json(Saved(tree=tree).model_dump_json()).tree == tree
    app = FastAPI()

    @app.post("/grow")
    async def grow(tree: ThreadTree) -> ThreadTree:
        return tree.push(UserMessage("more"))

    client = TestClient(app)
    answer = client.post("/grow", json=tree.to_dict())
    assert answer.status_code == 200
    assert len(ThreadTree.from_json(answer.json()).history()) == len(tree.history()) + 1
    assert client.post("/grow", json={}).status_code == 422


def test_drawing_shows_names_first_words_and_the_current_node():
    tree, other = grown()
    tree.branch(tree.root.id, "<script>")

    assert str(tree) == (
        "main · 3 messages · Create a web server\n"
        "├─ alternative (after 2) · 1 message · Use Express instead  ← current\n"
        "└─ <script> · 0 messages"
    )
    assert repr(tree) == f"ThreadTree(nodes=3, messages=4)\n{tree}"
    html = tree._repr_html_()
    assert "<b>alternative</b>" in html
    assert "<script" not in html
    assert tree.draw(lines=1).splitlines()[1] == "… 2 more node(s); current: alternative"
    assert repr(tree[other]) == (f'ThreadNode(id="{other}", name="alternative", messages=1, children=0)')


def test_non_message_is_rejected_and_nothing_is_added():
    tree = ThreadTree()
    with pytest.raises(TypeError, match=r"messages\[1\] must be a message"):
        tree.push(UserMessage("x"), 3)
    with pytest.raises(TypeError, match=r"messages\[0\] must be a message"):
        tree.root.thread.push("x")
    with pytest.raises((TypeError, turntree.ValidationError)):
        tree.append(3)
    assert tree.history() == []


def test_push_accepts_tool_results_and_dicts():
    tree = ThreadTree()

    tree.push(UserMessage("x").to_dict(), ToolResultMessage([]))

    assert [message.type for message in tree.history()] == ["user", "tool_result"]


def test_threads_can_share_a_tree():
    tree = ThreadTree()
    root = tree.root.id

    def work():
        for _ in range(50):
            branch = tree.branch(root)
            tree[branch].thread.user("x")
            tree.to_json()
            tree.root.thread.user("y")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(tree) == 201
    assert len(tree.root.thread) == 200
    assert ThreadTree.from_json(tree.to_json()) == tree


def test_node_handle_holds_its_tree_alive():
    node = ThreadTree([UserMessage("x")]).root
    gc.collect()

    assert texts(node.thread.user("y")) == ["x", "y"]


def test_package_exports_only_tree_and_node():
    assert {"ThreadTree", "ThreadNode"} <= set(turntree.__all__)
    assert not {"Thread", "ThreadDiff"} & set(turntree.__all__)
    assert ThreadTree.__module__ == ThreadNode.__module__ == "turntree"
    assert isinstance(ThreadTree().root.thread, Thread)
