"""Real HTTP receivers that the watchdog is made to page: a webhook, Slack and PagerDuty.

Each enforces what the provider documents, answers as the provider would, and remembers what
it took. `trouble` makes one fail.
"""

from __future__ import annotations

from enginechaos.receivers.all import Receivers
from enginechaos.receivers.inbox import Delivery, Inbox
from enginechaos.receivers.provider import Trouble

__all__ = ["Delivery", "Inbox", "Receivers", "Trouble"]
