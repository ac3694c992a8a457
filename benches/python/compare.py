"""Comparison of turntree and its peers with one mock server.

    python benches/python/compare.py                        # everything, about 25 minutes
    python benches/python/compare.py --quick                # a quick run; do not publish its numbers
    python benches/python/compare.py --peers turntree,agno --cases plain,tool
    python benches/python/compare.py --markdown docs/benchmarks.md
    eval "$(make services)" && python benches/python/compare.py --cases saved_sqlite,saved_postgres   # and so on

Uses the standard library only. Requires Python 3.10 or newer, which also creates the environments.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import environments
import report
from cases import BY_NAME, CASES, STEPS, Case
from environments import Environment, InstallError
from saved import FOLDER, POSTGRES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SERVER = HERE.parent / "mock_server"
PEERS = ("turntree", "openai", "pydantic_ai", "openai_agents", "agno", "langgraph")
FLOOR = report.FLOOR
TIMEOUT = 300.0
FILES = 8192
# Peers connect only to the mock server.
QUIET = {
    "AGNO_TELEMETRY": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "PYTHONWARNINGS": "ignore",
}


class WorkerError(Exception):
    """A worker failed, exited or timed out."""


class Worker:
    """A process with one prepared case of one peer."""

    def __init__(self, command: list[str]) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, env=_environment(), cwd=HERE
        )
        self.iterations = 1
        try:
            self.facts = self._receive()
        except WorkerError:
            self.close()
            raise

    def measure(self, iterations: int) -> dict[str, float]:
        """Return the times of a number of iterations, in seconds."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"iterations": iterations}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._receive()

    def close(self) -> None:
        """Stop the process."""
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate(timeout=10)
        self.stderr.close()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout
        timer = threading.Timer(TIMEOUT, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            code = self.process.wait()
            raise WorkerError(f"the worker ended with {code}: {self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Comparison:
    """One run: environments, workers, samples."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.repetitions: int = options.repetitions or (3 if options.quick else 20)
        self.seconds = 0.05 if options.quick else 0.25
        self.environments: dict[str, Environment] = {}
        self.binaries: dict[str, Path] = {}
        self.result: dict[str, Any] = {
            "run": {
                "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                "repetitions": self.repetitions,
                "seconds_per_repetition": self.seconds,
                "quick": options.quick,
            },
            "machine": describe_machine(),
            "peers": {},
            "cases": {},
        }

    def install(self) -> None:
        """Create all environments. Peers that fail are recorded and skipped."""
        for name in self.options.peers:
            if name == FLOOR:
                continue
            _say(f"environment of {name}")
            peer: dict[str, Any] = {}
            self.result["peers"][name] = peer
            try:
                peer["versions"] = self._install_turntree(peer) if name == report.OURS else self._install(name)
            except InstallError as error:
                peer["error"] = f"not installed: {error}"
                _say(f"  {peer['error']}")

    def _install(self, name: str) -> dict[str, str]:
        module = load(name)
        environment = environments.ensure(name, module.PACKAGES, upgrade=self.options.upgrade)
        self.environments[name] = environment
        return environments.read_versions(environment.python, module.VERSIONS)

    def _install_turntree(self, peer: dict[str, Any]) -> dict[str, str]:
        """Return two environments of turntree: the wheel alone for agents, and with pydantic-ai for conversions."""
        wheel = self.options.wheel or environments.newest_wheel(ROOT)
        if wheel is None:
            raise InstallError("no wheel in target/wheels or dist; build one or name it with --wheel")
        if not wheel.is_file():
            raise InstallError(f"no such wheel: {wheel.name}")
        alone = environments.ensure("turntree", [], wheel=wheel, upgrade=self.options.upgrade)
        self.environments["turntree"] = alone
        versions = environments.read_versions(alone.python, ["turntree"])
        if any(BY_NAME[case].group == "conversion" for case in self.options.cases):
            try:
                packages = load("pydantic_ai").PACKAGES
                self.environments["turntree+pydantic_ai"] = environments.ensure(
                    "turntree_pydantic_ai", packages, wheel=wheel, upgrade=self.options.upgrade
                )
            except InstallError as error:
                peer["notes"] = [f"no conversions: {error}"]
        return versions

    def build(self) -> None:
        """Build the mock server and, if requested, the floor."""
        command = ["cargo", "build", "--quiet", "--release", "--manifest-path", str(SERVER / "Cargo.toml")]
        target = Path(os.environ.get("CARGO_TARGET_DIR", SERVER / "target")) / "release"
        if any(case != "import" and BY_NAME[case].group not in ("conversion", "store") for case in self.options.cases):
            _say("mock server")
            subprocess.run([*command, "--locked"], check=True)
            self.binaries["server"] = target / "mock_server"
        if FLOOR in self.options.peers:
            _say("floor")
            done = subprocess.run([*command, "--locked", "--features", "floor"], check=False)
            floor = {"error": "not built"} if done.returncode else {"versions": _locked_versions("reqwest", "hyper")}
            self.result["peers"][FLOOR] = floor
            if not done.returncode:
                self.binaries[FLOOR] = target / FLOOR

    def run(self) -> None:
        """Measure all cases in sequence."""
        with self._server() as url, tempfile.TemporaryDirectory(prefix="turntree-bench-") as folder:
            os.environ[FOLDER] = folder
            for name in self.options.cases:
                case = BY_NAME[name]
                _say(case.title)
                row = self._fresh(case, url) if case.group == "import" else self._measure(case, url)
                self.result["cases"][name] = row
                for peer, cell in row.items():
                    _say(f"  {peer:15} {_line(cell)}")

    @contextlib.contextmanager
    def _server(self) -> Iterator[str]:
        if "server" not in self.binaries:
            yield ""
            return
        process = subprocess.Popen([str(self.binaries["server"])], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin
        assert process.stdout
        try:
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
            self._check(url)
            yield url
        finally:
            process.stdin.close()
            process.wait(timeout=10)

    def _check(self, url: str) -> None:
        """Check that the official SDK accepts all responses of the server."""
        if "openai" in self.environments:
            python = self.environments["openai"].python
            subprocess.run([str(python), str(HERE / "check_server.py"), url], check=True, env=_environment())

    def _fresh(self, case: Case, url: str) -> dict[str, dict[str, Any]]:
        """Measure a case that needs a new process for each sample."""
        row: dict[str, dict[str, Any]] = {}
        for round_number in range(self.repetitions + 1):
            for name in self._in_turn(round_number):
                if name not in self.environments:
                    continue
                cell = row.setdefault(name, {"cpu": [], "wall": [], "iterations": 1})
                if "error" in cell:
                    continue
                try:
                    times = _run_fresh(self.environments[name].python, name, case, url)
                except WorkerError as error:
                    row[name] = {"error": str(error)}
                    continue
                if round_number:  # The first round compiles the bytecode.
                    cell["cpu"].append(times["cpu"])
                    cell["wall"].append(times["wall"])
        return row

    def _measure(self, case: Case, url: str) -> dict[str, dict[str, Any]]:
        row: dict[str, dict[str, Any]] = {}
        workers: dict[str, Worker] = {}
        try:
            for name in self.options.peers:
                command = self._command(name, case, url)
                if isinstance(command, str):
                    row[name] = {"unsupported": command}
                    continue
                if command is None:
                    continue
                try:
                    workers[name] = worker = Worker(command)
                    wall = worker.measure(1)["wall"]
                except WorkerError as error:
                    row[name] = {"error": str(error)}
                    continue
                worker.iterations = max(1, min(1000, round(self.seconds / wall)))
                row[name] = {"cpu": [], "wall": [], "iterations": worker.iterations}
                if "bytes" in worker.facts:
                    row[name]["bytes"] = worker.facts["bytes"]
            self._repeat(row, workers)
        finally:
            for worker in workers.values():
                worker.close()
        return row

    def _repeat(self, row: dict[str, dict[str, Any]], workers: dict[str, Worker]) -> None:
        """Run rounds over all peers, each round with another first peer."""
        for round_number in range(self.repetitions):
            for name in self._in_turn(round_number):
                if name not in workers or "error" in row[name]:
                    continue
                worker = workers[name]
                try:
                    if worker.iterations > 1:
                        worker.measure(1)  # Warms up caches and reopens idle connections.
                    times = worker.measure(worker.iterations)
                except WorkerError as error:
                    row[name] = {"error": str(error)}
                    continue
                row[name]["cpu"].append(times["cpu"] / worker.iterations)
                row[name]["wall"].append(times["wall"] / worker.iterations)
                if "disk" in times:
                    row[name].setdefault("disk", []).append(times["disk"] / worker.iterations)
                if "peak_rss" in times:
                    row[name]["peak_rss"] = times["peak_rss"]

    def _in_turn(self, round_number: int) -> list[str]:
        peers: list[str] = self.options.peers
        start = round_number % len(peers)
        return [*peers[start:], *peers[:start]]

    def _command(self, name: str, case: Case, url: str) -> list[str] | str | None:
        """Return the command of the worker, the reason why there is none, or None."""
        if name == FLOOR:
            supported = case.name in ("plain", "tool", "stream", "stream_paced") or case.name.startswith("history_")
            return [str(self.binaries[FLOOR]), case.name, url] if supported and FLOOR in self.binaries else None
        module = load(name)
        if name not in self.environments:
            return None
        if case.group == "conversion":
            if not hasattr(module, case.name):
                return None
            name_of_environment = "turntree+pydantic_ai" if name == report.OURS else name
        else:
            if case.name in module.UNSUPPORTED:
                return module.UNSUPPORTED[case.name]
            if case.group == "store" and not hasattr(module, case.name):
                return None
            if case.name.startswith("saved_postgres") and POSTGRES not in os.environ:
                return f"{POSTGRES} is not set; start the server with tools/test-services"
            name_of_environment = name
        environment = self.environments.get(name_of_environment)
        return [str(environment.python), str(HERE / "worker.py"), name, case.name, url] if environment else None


def load(peer: str) -> ModuleType:
    """Load the module of a peer. Its third-party imports are lazy."""
    return importlib.import_module(f"peers.{peer}")


def describe_machine() -> dict[str, Any]:
    """Return the properties of the machine and the versions."""
    cpu, memory = platform.processor() or platform.machine(), "memory unknown"
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        cpu = found.group(1) if found else cpu
        kilobytes = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
        memory = f"{int(kilobytes.group(1)) / 2**20:.0f} GiB" if kilobytes else memory
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def _run_fresh(python: Path, peer: str, case: Case, url: str) -> dict[str, float]:
    statements = load(peer).IMPORT
    if case.name == "first_answer":
        statements += (
            f"\nimport asyncio, sys; sys.path.insert(0, {str(HERE)!r})\n"
            f"from peers.{peer} import plain; asyncio.run(plain({url!r})())"
        )
    program = (
        "import time\nwall, cpu = time.perf_counter(), time.process_time()\n"
        f"{statements}\n"
        "print(chr(10), time.process_time() - cpu, time.perf_counter() - wall)"
    )
    done = subprocess.run(
        [str(python), "-I", "-c", program],
        capture_output=True,
        text=True,
        env=_environment(),
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise WorkerError(lines[-1] if lines else f"ended with {done.returncode}")
    cpu, wall = done.stdout.splitlines()[-1].split()
    return {"cpu": float(cpu), "wall": float(wall)}


def _environment() -> dict[str, str]:
    """Return the environment variables of a worker, without those that redirect libraries to other hosts."""
    unwanted = re.compile(r"(?i)^(openai_|langchain_|langsmith_|agno_|pydantic_|python|virtual_env|.*_proxy$)")
    return {key: value for key, value in os.environ.items() if not unwanted.match(key)} | QUIET


def _locked_versions(*names: str) -> dict[str, str]:
    lock = (SERVER / "Cargo.lock").read_text()
    found = {name: re.search(rf'name = "{name}"\nversion = "(.+)"', lock) for name in names}
    return {name: match.group(1) for name, match in found.items() if match}


def _line(cell: dict[str, Any]) -> str:
    if "unsupported" in cell:
        return f"not supported: {cell['unsupported']}"
    if "error" in cell:
        return f"failed: {cell['error'][:200]}"
    samples = sorted(cell["cpu"])
    if "disk" in cell:
        wall = sorted(cell["wall"])[len(samples) // 2]
        return f"{STEPS / wall:10.0f} steps/s  {samples[len(samples) // 2] / STEPS * 1e3:.3f} ms CPU a step"
    speed = f"  {cell['bytes'] / samples[len(samples) // 2] / 1e6:.0f} MB/s" if "bytes" in cell else ""
    return f"{samples[len(samples) // 2] * 1e3:10.3f} ms CPU  × {cell['iterations']}{speed}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _raise_file_limit() -> None:
    """Raise the limit of open files for 500 connections. Child processes inherit it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _names(allowed: tuple[str, ...]) -> Any:
    def parse(text: str) -> list[str]:
        chosen = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
        for name in chosen:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"no such name: {name}; there are {', '.join(allowed)}")
        return [name for name in allowed if name in chosen]

    return parse


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    peers, names = (*PEERS, FLOOR), tuple(case.name for case in CASES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="wheel of turntree (default: newest in target/wheels or dist)")
    parser.add_argument("--peers", type=_names(peers), default=list(peers), help=f"of {', '.join(peers)}")
    parser.add_argument("--cases", type=_names(names), default=list(names), help=f"of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="3 short repetitions")
    parser.add_argument("--repetitions", type=int, help="default 20")
    parser.add_argument("--upgrade", action="store_true", help="make the environments again, with the newest versions")
    parser.add_argument("--json", type=Path, default=ROOT / "target/bench/compare.json", help="every sample")
    parser.add_argument(
        "--markdown",
        type=Path,
        default=ROOT / "target/bench/compare.md",
        help=f"the tables; a file that holds {report.BEGIN} and {report.END} keeps what is around them",
    )
    return parser.parse_args()


def main() -> None:
    """Install the peers, build the server, measure, and write the report."""
    options = parse_options()
    _raise_file_limit()
    comparison = Comparison(options)
    comparison.install()
    comparison.build()
    try:
        comparison.run()
    finally:
        result = comparison.result
        report.summarise(result)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
        report.write(options.markdown, report.markdown(result))
        _say(f"written: {options.json.name}, {options.markdown.name}")


if __name__ == "__main__":
    main()
