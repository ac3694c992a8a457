"""Notebooks and rich display every public class: the table of an object, hostile content, secrets, and the limits."""

import asyncio
import enum
import inspect
import io
import re
import subprocess
from html.parser import HTMLParser

import displayed_samples
import pytest
import rich
import rich.console
from IPython.core.formatters import HTMLFormatter
from test_introspection import modules
from test_secrets_in_reprs import OBJECTS, SECRET

import turntree
from turntree import Limits, ValidationError, execution, harness, upp
from turntree._core import Data
from turntree.harness import Project
from turntree.uaip import ToolInfo
from turntree.upp import ToolUseStrategy

HOSTILE = "</td></table><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp\x1b[31m"
LONG = "<b>" + "x" * 10_000_000
# The size of the longest HTML: 100,000 characters of data with their markup, the style, and a drawing.
LARGEST = 400_000
# Classes of which this test has no object, and why.
WITHOUT_SAMPLE = {
    "turntree.durable.absurd.DurableAgent": "needs a database",
    "turntree.durable.absurd.RunHandle": "needs a database",
    "turntree.durable.dbos.DurableAgent": "registers a workflow for the whole process",
    "turntree.durable.dbos.RunHandle": "needs a database",
    "turntree.upp.ApplicationDefaultCredentials": "reads the credentials of this computer",
    "turntree.upp.KeyStrategy": "a base class",
    "turntree.upp.RetryStrategy": "a base class",
}


def public_classes():
    found = {}
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("turntree"):
                found.setdefault(value, f"{module.__name__}.{name}")
    return found


def has_objects(value):
    """Whether objects of a class are shown by their own methods, and not as tracebacks, members and dicts are."""
    is_protocol, is_type_of_dicts = "_is_protocol" in vars(value), "__total__" in vars(value)
    return not (issubclass(value, (BaseException, enum.Enum)) or is_protocol or is_type_of_dicts)


NAMES = public_classes()
SHOWN = [pytest.param(value, id=name) for value, name in NAMES.items() if has_objects(value)]
OTHERS = [pytest.param(value, id=name) for value, name in NAMES.items() if not has_objects(value)]


class Checked(HTMLParser):
    """Reads HTML: every tag is closed in order, and none is one that a text has."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "iframe", "link")
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open = self.open if tag in ("br", "hr") else self.open[:-1]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a project of the harness."""
    folder = tmp_path_factory.mktemp("project")
    for command in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m Start"):
        subprocess.run(["git", "-C", folder, *command.split()], check=True)
    (folder / "policies").mkdir()
    return folder


def objects(text, folder):
    """Objects with a text, by their class."""
    made = displayed_samples
    lists = [kind(text) for kind in (made.of_agents, made.of_models, made.of_testing, made.of_stores)]
    lists += [made.of_protocols(text), made.of_workflows(text), made.of_harness(text, Project.find(folder))]
    lists += [asyncio.run(made.of_runs(text, folder)), made.of_data(text)]
    return {type(value): value for values in reversed(lists) for value in values}


@pytest.fixture(scope="module")
def sample(folder):
    """Return an object of a class with a text, or None if this test has none."""
    made = {}

    def sample(value, text):
        if text not in made:
            made[text] = objects(text, folder)
        if issubclass(value, Data):
            try:
                return displayed_samples.from_schema(value, text)
            except ValidationError:
                return made[text][value]  # Its schema says too little.
        assert (value in made[text]) != (NAMES[value] in WITHOUT_SAMPLE)
        return made[text].get(value)

    return sample


@pytest.mark.parametrize("value", SHOWN)
def test_a_public_class_has_displays(value):
    assert callable(value._repr_html_)
    assert callable(value.__rich_repr__)


@pytest.mark.parametrize("value", OTHERS)
def test_exceptions_members_protocols_and_types_of_dicts_have_none(value):
    assert not hasattr(value, "_repr_html_")


@pytest.mark.parametrize("value", SHOWN)
def test_a_display_has_only_its_own_markup(value, sample):
    shown = sample(value, HOSTILE)
    if shown is None:
        return
    html = shown._repr_html_()

    assert Checked(html).open == []
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", html)
    assert HTMLFormatter()(shown) == html  # what IPython shows


@pytest.mark.parametrize("value", SHOWN)
def test_rich_prints_the_parts_of_an_object(value, sample):
    shown = sample(value, HOSTILE)
    if shown is None:
        return
    parts = list(shown.__rich_repr__())
    output = io.StringIO()
    rich.print(shown, file=output)

    assert not [part for part in parts if isinstance(part, tuple) and not isinstance(part[0], str) and len(part) > 3]
    assert output.getvalue().strip()
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", output.getvalue())


@pytest.mark.parametrize("value", SHOWN)
def test_the_display_of_a_text_of_ten_megabytes_is_short(value, sample):
    shown = sample(value, LONG)
    if shown is None:
        return
    html = shown._repr_html_()
    output = io.StringIO()
    rich.print(shown, file=output)

    assert Checked(html).open == []
    assert len(html) < LARGEST
    assert len(output.getvalue()) < LARGEST
