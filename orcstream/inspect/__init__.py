"""To see a file: where its bytes are, what a question would read of them, and what reading them took.

Re-exports only.
"""

from __future__ import annotations

from orcstream.inspect.looking import Inspection, inspect, inspect_blocking

__all__ = ["Inspection", "inspect", "inspect_blocking"]
