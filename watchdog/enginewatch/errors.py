"""The root of every error a user can meet.

EnginewatchError                 one sentence, a place, a remedy
├── config.ConfigError           enginewatch.yml, a target file, a command line
├── exposition.PageError         a scraped page
├── collect.http.FetchError      no page: no connection, no answer, another status
├── promql.errors.PromQLError    an expression, with line and column
│   └── EvaluationError          an expression that parsed and can't be computed
├── alerting.errors.RuleError    a rule file or a rule test
│   ├── RuleFileError            all that is wrong with the files that were read
│   └── TemplateError            an annotation or label template
├── canary.errors.CanaryError    tasks, a baseline or an evaluation
├── canary.sandbox.SandboxError  answers in code can't be run safely on this machine
├── collect.ras_report.RasError  no account of a job of NCCL's, and why
├── collect.canary_ask.AskError  an engine that can't be asked golden tasks at all
├── preflight.errors.PreflightError  an input that isn't there, an option without sense
├── statefile.StateError         what outlives a restart can't be read or written
├── notify.message.DeliveryError  a receiver took no notification, and whether it may later
│   └── notify.slack.SlackError   in Slack's own word
├── notify.silence.SilenceError   a silence that makes no sense, or is not there
├── rulepack.RulePackError       the shipped rules
└── recording.RecordingError     a recording
"""

from __future__ import annotations


class EnginewatchError(Exception):
    """What was found (`what`), where it stands (file, key, line), and what would be right."""

    def __init__(self, what: str, *, where: str = "", hint: str = ""):
        super().__init__(what, where, hint)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.hint})" if self.hint else text
