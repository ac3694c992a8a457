"""Notebooks and rich display every public class: the table of an object, hostile content, secrets, and the limits."""

import asyncio
import enum
import inspect
import io
import re
import subprocess
import sys
import typing
from html.parser import HTMLParser

import displayed_samples
import pytest
import rich
import rich.repr
from IPython.core.formatters import HTMLFormatter
from test_introspection import modules

from turntree import AgentHooks, Limits, ValidationError, notebook, store, testing, uaip, upp
from turntree._core import Data
from turntree.execution import loop
from turntree.harness import Action, Project

HOSTILE = "</td></table><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp\x1b[31m"
LONG = "<b>" + "x" * 10_000_000
# The size of the longest HTML: 100,000 characters of data with their markup, the style, and a drawing.
LARGEST = 400_000
# Public classes of which these tests have no object, and why.
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
    is_protocol, is_type_of_dicts = getattr(value, "_is_protocol", False), typing.is_typeddict(value)
    return not (issubclass(value, (BaseException, enum.Enum)) or is_protocol or is_type_of_dicts)


NAMES = public_classes()
SHOWN = [pytest.param(value, id=name) for value, name in NAMES.items() if has_objects(value)]
SAMPLED = [parameter for parameter in SHOWN if parameter.id not in WITHOUT_SAMPLE]
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
    """Return an object of a class with a text."""
    made = {}

    def sample(value, text):
        if text not in made:
            made[text] = objects(text, folder)
        if issubclass(value, Data):
            try:
                return displayed_samples.from_schema(value, text)
            except ValidationError:
                return made[text][value]  # Its schema says too little.
        return made[text][value]

    return sample


@pytest.mark.parametrize("value", SHOWN)
def test_a_public_class_has_displays(value):
    assert callable(value._repr_html_)
    assert callable(value.__rich_repr__)


def test_the_classes_without_a_sample_are_public():
    unknown = WITHOUT_SAMPLE.keys() - NAMES.values()

    # The engines may not be installed.
    assert [name for name in unknown if not name.startswith("turntree.durable.")] == []


@pytest.mark.parametrize("value", OTHERS)
def test_exceptions_members_protocols_and_types_of_dicts_have_none(value):
    assert not hasattr(value, "_repr_html_")


@pytest.mark.parametrize("value", SAMPLED)
def test_a_display_has_only_its_own_markup(value, sample):
    shown = sample(value, HOSTILE)
    html = shown._repr_html_()

    assert Checked(html).open == []
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", html)
    assert HTMLFormatter()(shown) == html  # what IPython shows


@pytest.mark.parametrize("value", SAMPLED)
def test_rich_prints_the_parts_of_an_object(value, sample):
    shown = sample(value, HOSTILE)
    output = io.StringIO()
    rich.print(shown, file=output)

    assert output.getvalue().strip()
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", output.getvalue())


@pytest.mark.parametrize("value", SAMPLED)
def test_the_display_of_a_text_of_ten_megabytes_is_short(value, sample):
    shown = sample(value, LONG)
    html = shown._repr_html_()
    output = io.StringIO()
    rich.print(shown, file=output)

    assert Checked(html).open == []
    assert len(html) < LARGEST
    assert len(output.getvalue()) < LARGEST


def printed(value):
    output = io.StringIO()
    rich.print(value, file=output)
    return output.getvalue().strip()


def test_a_table_has_the_attributes_in_the_repr():
    html = Limits(requests=3, seconds=1.5)._repr_html_()

    assert html.startswith("<style>")  # with colours for light and dark pages
    assert Checked(html).text == "Limitsrequests3seconds1.5"
    assert "<tr><th>requests</th><td><code>3</code></td></tr>" in html
    assert printed(Limits(requests=3, seconds=1.5)) == "Limits(requests=3, seconds=1.5)"
    assert Checked(upp.AccessToken("secret", 1.0)._repr_html_()).text == "AccessToken***expires_on1.0"
    assert Checked(upp.LinearBackoff()._repr_html_()).text == "LinearBackoffmax_attempts3delay1.0"
    assert Checked(upp.NoRetry()._repr_html_()).text == "NoRetry"


def test_the_values_of_an_attribute_are_those_of_the_repr():
    tools = list(upp.ToolUseStrategy(max_iterations=2, on_error=print).__rich_repr__())
    stops = list(upp.ModelSettings(stop=["a, b='c'", 'd"(']).__rich_repr__())

    assert repr(tools) == "[('max_iterations', 2), ('on_error', <built-in function print>)]"
    assert repr(stops) == """[('stop', ["a, b='c'", 'd"('])]"""
    assert dict(Action(kind="shell", command="ls").__rich_repr__())["command"] == "ls"
    assert [*testing.Verdict(passed=True).__rich_repr__()] == [("passed", True), ("reason", ""), ("name", "")]
    assert [*uaip.ToolInfo(name="a", other={"b": 1}).__rich_repr__()] == [("name", "a"), ("other", {"b": 1})]
    assert repr(list(upp.ModelSettings(stop=["x" * 1_000]).__rich_repr__()))[-3:] == "…)]"


def test_a_page_of_a_store_lists_its_first_entries():
    page = store.SessionPage([store.SessionInfo(str(number), "", "done", 0, 0, None, 0) for number in range(150)], None)

    assert Checked(page._repr_html_()).text.count("SessionInfo(id=") == 100
    assert Checked(page._repr_html_()).text.endswith("'… 50 more'")


def test_a_class_of_an_application_is_shown_as_its_own_repr():
    class Mine(AgentHooks):
        def __repr__(self):
            return "Mine(colour='red')"

    @rich.repr.auto
    class Automatic(AgentHooks):
        def __init__(self, colour):
            super().__init__()
            self.colour = colour

    assert Checked(Mine()._repr_html_()).text == "Minecolour'red'"
    assert printed(Mine()) == "Mine(colour='red')"
    assert repr(Automatic("red")) == printed(Automatic("red")) == "Automatic(colour='red')"


def test_rich_prints_the_text_of_a_view():
    assert printed(notebook.View("<p>", "[red]text[/red]\nmore")) == "[red]text[/red]\nmore"


def test_the_report_of_an_evaluation_is_a_table():
    result = testing.CaseResult(testing.Case("x", name="<b>"), 1, None, None, (), 0.1)

    html = testing.Report([result] * 150)._repr_html_()
    assert html.count("<tr>") == 101
    assert "<td>&lt;b&gt;</td>" in html
    assert "… 50 more runs are not shown" in html


def test_displays_are_imported_when_they_are_asked_for():
    program = """
import sys
from turntree import Limits
from turntree.execution import loop
assert not {"turntree._display", "turntree._repr_parts", "turntree.notebook"} & set(sys.modules)
list(loop().__rich_repr__())
assert "turntree.notebook" not in sys.modules
Limits()._repr_html_()
assert "turntree.notebook" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
    assert loop()._repr_html_()
