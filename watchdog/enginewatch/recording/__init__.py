"""Recordings: the pages of some targets, as they were served, with their times.

```
# enginewatch recording 1
# TARGET instance="127.0.0.1:8000" job="vllm" deployment="demo"
# SCRAPE t=1764531946.123 instance="127.0.0.1:8000" duration=0.0041 status=200 lines=2
vllm:num_requests_running{engine="0"} 1.0
vllm:num_requests_waiting{engine="0"} 0.0
# NOTE t=1764531990.001 text="flood begins"
# SCRAPE t=1764531951.123 instance="127.0.0.1:8000" duration=2.0 error="timed out"
# SAMPLES t=1764531951.500 source="probe" instance="127.0.0.1:8000" lines=1
enginewatch_probe_unanswered_seconds 5.0
```

`t` is Unix seconds to the millisecond, `duration` seconds. `lines` tells how many
lines the page has, so that a page may hold anything; without it, a page ends at the
next line that starts with one of these words. `SAMPLES` are what a collector beside the
scrape said of a target, a round at a time, without the target's labels. Files with
nothing but `# SCRAPE t=0` lines between pages are recordings too: of one target, called
`recording`.
"""

from enginewatch.recording.events import (
    Event,
    NoteEvent,
    RecordingError,
    SamplesEvent,
    ScrapeEvent,
)
from enginewatch.recording.reader import read_recording
from enginewatch.recording.writer import RecordingWriter

__all__ = [
    "Event",
    "NoteEvent",
    "RecordingError",
    "RecordingWriter",
    "SamplesEvent",
    "ScrapeEvent",
    "read_recording",
]
