"""Counts what holds and says what does not."""


class Checks:
    """The checks of one script."""

    def __init__(self, name):
        self.name = name
        self.passed = self.failed = 0

    def holds(self, what, condition, detail=""):
        """Counts whether something holds."""
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {str(detail)[:600]}", flush=True)

    def equal(self, what, actual, expected):
        """Counts whether two values are the same."""
        self.holds(what, actual == expected, f"{actual!r} is not {expected!r}")

    def finish(self):
        """Says the sum and returns the exit code."""
        print(f"{self.name}: {self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0
