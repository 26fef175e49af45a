"""From alerts to people: what a notification says, and the receivers that carry it."""
