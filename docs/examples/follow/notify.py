"""Send an event of an incident to PagerDuty (Events API v2), to Slack, or to both. It needs only Python.

``highwater replay --follow … --on-incident 'python3 notify.py CLUSTER'`` writes the event to standard input. Variables
of the environment name the receivers: ``PAGERDUTY_ROUTING_KEY`` has the key of the cluster's integration, and
``SLACK_WEBHOOK_URL`` the URL of an incoming webhook. ``PAGERDUTY_URL`` replaces the address, for PagerDuty in the EU.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
SECONDS = 10
"""The time for each receiver. The follower kills the script after 30 s."""
SEVERITIES = {"lost": "critical", "stuck": "critical", "at_risk": "critical", "unclean": "warning"}
"""The severities that open an alert in PagerDuty. A notice pages nobody, and resolves the alert that it had before."""


def heading(incident: Mapping[str, Any], cluster: str) -> str:
    """One line about an incident, which says if it is not certain."""
    possible = "" if incident["certain"] else "POSSIBLE "
    unsure = "" if incident["reliable"] else " (not reliable: incomplete input)"
    return f"{cluster}: {possible}{incident['severity'].upper().replace('_', ' ')}: {incident['headline']}{unsure}"


def pagerduty(event: Mapping[str, Any], cluster: str, key: str) -> dict[str, Any]:
    """The request that opens or updates the alert with the incident's id, or resolves it when the incident closes."""
    incident = event["incident"]
    severity = SEVERITIES.get(incident["severity"])
    about = {"routing_key": key, "dedup_key": incident["id"][-255:]}
    if event["event"] == "closed" or severity is None:
        return {**about, "event_action": "resolve"}
    payload = {
        "summary": heading(incident, cluster)[:1024],
        "source": cluster,
        "severity": severity,
        "component": incident["partition"] or "controllers",
        "custom_details": {"cause": incident["cause"], "steps": incident["steps"]},
    }
    return {**about, "event_action": "trigger", "payload": payload}


def slack(event: Mapping[str, Any], cluster: str) -> dict[str, str]:
    """The message about an event, with the incident's cause and steps."""
    incident = event["incident"]
    lines = [f"{event['event']}: {heading(incident, cluster)}", *incident["cause"]]
    lines += [f"• {step['when']}: {step['text']}" for step in incident["steps"]]
    text = "\n".join(lines)[:3000]
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, written)
    return {"text": text}


def send(url: str, content: Mapping[str, Any]) -> None:
    """Send a request with JSON. Raises OSError if it is not answered with success."""
    request = urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS):
        pass


def main() -> int:
    """Send the event on standard input to each receiver; return 1 if one was not reached."""
    event, cluster = json.load(sys.stdin), sys.argv[1]
    requests: list[tuple[str, str, Mapping[str, Any]]] = []
    if key := os.environ.get("PAGERDUTY_ROUTING_KEY"):
        requests.append(
            ("PagerDuty", os.environ.get("PAGERDUTY_URL", PAGERDUTY), pagerduty(event, cluster, key))
        )
    if webhook := os.environ.get("SLACK_WEBHOOK_URL"):
        requests.append(("Slack", webhook, slack(event, cluster)))
    if not requests:
        print("notify.py: set PAGERDUTY_ROUTING_KEY or SLACK_WEBHOOK_URL", file=sys.stderr)
        return 1
    failed = 0
    for name, url, content in requests:
        try:
            send(url, content)
        except (OSError, HTTPException) as wrong:
            print(f"notify.py: {name}: {wrong}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
