"""The harness layer: policies, hooks and coordination for coding agents."""

from typing import Any, final

@final
class HarnessCore:
    """The native half of a project of `turntree.harness`. Operations return dicts."""

    def __new__(cls, path: str) -> HarnessCore:
        """Open the project of a folder."""

    def info(self) -> dict[str, Any]:
        """Return the folders and the branch of the project."""

    def check(
        self, action: object, cwd: str, more: list[dict[str, str]] | None = None, record: bool = True
    ) -> dict[str, Any]:
        """Decide about an action, with findings of the caller's rules. It is recorded unless `record` is false."""

    def check_commit(self, hook: str, folder: str) -> dict[str, Any]:
        """Decide about what is about to be committed or pushed, and record the decision."""

    def test_policies(self, folder: str | None = None) -> list[dict[str, Any]]:
        """Run the examples of the user's rules; return the rules with what is wrong."""

    @staticmethod
    def recorded_actions(entries: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        """Return the actions of recorded decisions, or None for those that cannot be decided again."""

    def replay(
        self,
        entries: list[dict[str, Any]] | None = None,
        limit: int = 1000,
        config: str | None = None,
        folder: str | None = None,
        ids: list[str] | None = None,
        found: list[list[dict[str, str]]] | None = None,
    ) -> dict[str, Any]:
        """Decide about recorded actions again, with what the caller's rules find in each; return what would change."""

    def explain(self, prefix: str) -> list[dict[str, Any]]:
        """Say where the values of the configuration come from."""

    def rules(self) -> list[dict[str, Any]]:
        """List the rules and their levels."""

    def audit(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest decisions."""

    def verify_audit(self) -> int:
        """Check the chain of the audit; return the number of entries."""

    def override_rule(self, rule: str, reason: str, author: str, seconds: int) -> dict[str, Any]:
        """Let a rule warn for a time."""

    def claim(self, owner: str, resource: str, exclusive: bool, ttl: float) -> dict[str, Any]:
        """Claim a resource."""

    def renew(self, lease: str, ttl: float) -> bool:
        """Extend a lease."""

    def release(self, lease: str, resource: str, owner: str) -> bool:
        """Release a lease."""

    def is_valid(self, lease: str) -> bool:
        """Say whether a lease still protects its resource."""

    def claims(self) -> list[dict[str, Any]]:
        """List the leases."""

    def register(self, agent: str, harness: str, own: bool) -> None:
        """Register an agent. One that is this process has a lock as long as the process runs."""

    def leave(self, agent: str) -> None:
        """End an agent."""

    def agents(self) -> list[dict[str, Any]]:
        """List the agents."""

    def announce(self, agent: str, resource: str, intent: str, note: str) -> dict[str, Any]:
        """Announce work; return what others have announced that overlaps, the risk and what to do."""

    def resource_name(self, resource: str) -> str:
        """Return the name of a resource in claims and announcements."""

    def complete(self, agent: str, resource: str) -> bool:
        """End an announcement."""

    def send(self, agent: str, to: str | None, channel: str, text: str) -> str:
        """Send a message; return its id."""

    def inbox(self, agent: str) -> list[dict[str, Any]]:
        """Take the unread messages of an agent."""

    def post(self, agent: str, kind: str, text: str) -> str:
        """Post on the board; return the id."""

    def board(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest posts of the board."""

    def take_slot(self, target: str, agent: str, ceiling: int, ttl: float) -> str | None:
        """Take a slot of a model; return its id, or None if all are taken."""

    def give_slot(self, slot: str, target: str, exhausted: bool) -> None:
        """Give a slot back."""

    def create_worktree(self, name: str, base: str | None) -> dict[str, Any]:
        """Create a worktree."""

    def worktrees(self) -> list[dict[str, Any]]:
        """List the worktrees."""

    def remove_worktree(self, name: str, force: bool) -> None:
        """Remove a worktree."""

    def forecast_all(self) -> dict[str, Any]:
        """Return which branches of working trees would conflict, and an order in which to merge them."""

    def forecast(self, ours: str, theirs: str) -> list[str]:
        """Return the files in which two branches would conflict."""

def harness_schemas() -> dict[str, Any]:
    """Return the JSON Schemas of `turntree.toml` and of policy files, and the schema of Cedar policies."""

def harness_hook(harness: str, event: bytes, cwd: str, name: str | None = None) -> tuple[int, str, str]:
    """Handle one event of a harness, which an argument may name; return exit status, output and error output."""
