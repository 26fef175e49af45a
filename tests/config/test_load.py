"""A configuration is read, or everything wrong with it is said, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.config import ConfigError, ConfigFileError, load_config, parse_config

E = Path("/etc/e.yml")

FULL = """
global:
  scrape_interval: 10s
  evaluation_interval: 15s
  external_labels: {region: eu, shard: 0}
scrape_configs:
  - job_name: vllm
    runtime: vllm
    deployment: llama-70b
    scrape_interval: 1m30s
    scrape_timeout: 20s
    honor_labels: true
    body_size_limit: 2MB
    sample_limit: 1000
    params: {match: [a, b]}
    authorization: {credentials_file: token}
    tls_config: {ca_file: /etc/ca.pem, insecure_skip_verify: "yes"}
    static_configs:
      - targets: ["gpu1:8000", "[::1]:8000"]
        labels: {rack: 7}
  - job_name: trt
    runtime: trtllm
    basic_auth: {username: me, password: secret}
    file_sd_configs: [{files: [targets/*.json]}]
rule_files: [shipped, "rules/*.yml"]
receivers:
  - name: hook
    webhook_configs: [{url: "http://a/b?token=c", http_config: {follow_redirects: true}}]
  - name: here
    console_configs: [{}]
storage: {path: state}
web: {listen: "0.0.0.0:1234", external_url: "https://watch.example", token_file: web.token}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, E)
    return str(caught.value).splitlines()


def test_all_sections_are_read() -> None:
    config = parse_config(FULL, Path("/etc/ew/e.yml"))
    vllm, trt = config.scrape_configs
    assert (config.interval(vllm), config.timeout(vllm)) == (90_000, 20_000)
    assert (config.interval(trt), config.timeout(trt)) == (10_000, 4_000)
    assert config.global_.external_labels == {"region": "eu", "shard": "0"}
    assert vllm.static_configs[0].labels == {"rack": "7"}
    assert vllm.tls_config.insecure_skip_verify is True
    assert (vllm.body_size_limit, vllm.sample_limit, trt.sample_limit) == (2 << 20, 1000, None)
    assert (vllm.path, trt.path) == ("/metrics", "/prometheus/metrics")
    assert trt.file_sd_configs[0].files == (Path("/etc/ew/targets/*.json"),)
    assert config.storage.path == Path("/etc/ew/state")
    assert config.web.address == ("0.0.0.0", 1234)
    assert config.receivers[0].webhook_configs[0].read_url() == "http://a/b?token=c"


@pytest.mark.parametrize("text", ["", "global:\nscrape_configs:\n", "# nothing\n"])
def test_everything_has_a_default(text: str) -> None:
    config = parse_config(text, Path("/etc/ew/e.yml"))
    assert config.global_.scrape_interval == config.global_.evaluation_interval == 5_000
    assert config.rule_files == ("shipped",)
    assert config.web.address == ("127.0.0.1", 9469)
    assert config.storage.path == Path("/etc/ew/enginewatch-data")


def test_the_timeout_is_never_longer_than_the_interval() -> None:
    config = parse_config("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: a}]", E)
    assert config.timeout(config.scrape_configs[0]) == 1_000


def test_anchors_and_merges() -> None:
    config = parse_config(
        "scrape_configs:\n- &a {job_name: a, sample_limit: 5}\n- {<<: *a, job_name: b}\n", E
    )
    assert [(j.job_name, j.sample_limit) for j in config.scrape_configs] == [("a", 5), ("b", 5)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "scrape_config: []",
            "/etc/e.yml:1: scrape_config: unknown key (did you mean 'scrape_configs'?)",
        ),
        (
            "scrape_configs:\n- job_name: a\n  relabel_configs: []\n",
            "/etc/e.yml:3: scrape_configs[0].relabel_configs: unknown key (relabelling is not",
        ),
        (
            "alerting:\n  x: 1",
            "/etc/e.yml:1: alerting: unknown key (alerts go to receivers directly",
        ),
        ("scrape_configs: [{}]", "/etc/e.yml:1: scrape_configs[0].job_name: is missing"),
        ("scrape_configs: {}", "scrape_configs: must be a list, not a mapping"),
        ("scrape_configs: [5]", "scrape_configs[0]: must be a mapping, not '5'"),
        (
            "web:\n  listen: 80",
            "/etc/e.yml:2: web.listen: '80' is not host:port (like 127.0.0.1:9469",
        ),
        (
            "global: {scrape_interval: 5}",
            "scrape_interval: '5' is not a duration: write it like 30s",
        ),
        ("global: {scrape_interval: 0s}", "scrape_interval: must be longer than 0s"),
        ("global: {external_labels: {a-b: c}}", "external_labels.a-b: 'a-b' is not a label name"),
        ("global: {external_labels: {__x: c}}", "label '__x' is reserved"),
        ("global: {scrape_interval: 1s, scrape_timeout: 2s}", "longer than scrape_interval"),
        (
            "scrape_configs:\n- job_name: a\n- job_name: b\n- job_name: a",
            "/etc/e.yml:4: scrape_configs[2].job_name: 'a' is given twice",
        ),
        ("scrape_configs: [{job_name: a, scrape_timeout: 9s}]", "[0].scrape_timeout: longer than"),
        (
            "scrape_configs: [{job_name: a, honor_labels: maybe}]",
            "must be true or false, not 'maybe'",
        ),
        ("scrape_configs: [{job_name: a, sample_limit: -1}]", "must be 0 or more, not '-1'"),
        ("scrape_configs: [{job_name: a, sample_limit: x}]", "must be a whole number, not 'x'"),
        ("scrape_configs: [{job_name: a, body_size_limit: 5XB}]", "'5XB' is not a size"),
        ("scrape_configs: [{job_name: a, scheme: ftp}]", "must be 'http' or 'https', not 'ftp'"),
        (
            "scrape_configs: [{job_name: a, metrics_path: m}]",
            "metrics_path: 'm' does not start with /",
        ),
        (
            "scrape_configs: [{job_name: a, bearer_token: x}]",
            "use authorization: {credentials_file",
        ),
        ("scrape_configs: [{job_name: ''}]", "job_name: must not be empty"),
        ("receivers: [{name: a, email_configs: []}]", "Alertmanager behind alertmanager_configs"),
        ("receivers: [{name: a, webhook_configs: [{}]}]", "webhook_configs[0]: no URL (give url"),
    ],
)
def test_a_mistake_is_told_with_line_key_and_remedy(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert expected in problem


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://a:80/metrics", "is not host:port (put the rest in scheme and metrics_path"),
        ("user:secret@a:80", "the target has credentials in it (move them to basic_auth"),
        ("a:x", "'x' is not a port"),
        ("a:99999", "port 99999 is out of range"),
        ("'a b'", "'a b' is not host:port"),
        ("''", "'' is not host:port"),
        (":80", "':80' is not host:port"),
    ],
)
def test_targets_are_addresses(target: str, expected: str) -> None:
    job = "- job_name: a\n  static_configs:\n  - targets:\n    - ok:1\n"
    text = f"scrape_configs:\n{job}    - {target}"
    (problem,) = problems(text)
    assert problem.startswith("/etc/e.yml:6: scrape_configs[0].static_configs[0].targets[1]: ")
    assert expected in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("authorization: {}", "authorization: no credentials"),
        ("authorization: {credentials: s3cret, credentials_env: X}", "are both given"),
        (
            "authorization: {type: basic, credentials: s3cret}",
            "can't be of type Basic (use basic_auth)",
        ),
        ("basic_auth: {password: s3cret}", "basic_auth.username: is missing"),
        ("basic_auth: {username: 'a:b', password: s3cret}", "can't have a colon in it"),
        ("basic_auth: {username: a, password: [s3cret]}", "password: must be a text, not a list"),
        ("basic_auth: {username: a}\n  authorization: {credentials: s3cret}", "are both given"),
        ("tls_config: {cert_file: a}", "cert_file and key_file are only of use together"),
    ],
)
def test_credentials_are_checked_and_not_shown(job: str, expected: str) -> None:
    (problem,) = problems(f"scrape_configs:\n- job_name: a\n  {job}\n")
    assert expected in problem
    assert "s3cret" not in problem


def test_all_problems_are_told_in_the_order_of_lines() -> None:
    found = problems(
        "web:\n  listen: x\nfoo: 1\nscrape_configs:\n- job_name: a\n  bar: 1\n  baz: 2\n"
    )
    assert [line.split(" ")[0] for line in found] == [
        "/etc/e.yml:2:", "/etc/e.yml:3:", "/etc/e.yml:6:", "/etc/e.yml:7:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2", "/etc/e.yml:2: key 'a' is already given in line 1"),
        ("a: [", "/etc/e.yml:2:1: not YAML: while parsing a flow node"),
        ("a:\n\tb: 1", "/etc/e.yml:2:1: not YAML"),
        ("a: !!python/object:os.system x", "python/object:os.system' is not supported"),
        ("a: !foo x", "/etc/e.yml:1: tag '!foo' is not supported (leave it out)"),
        ("? [a]\n: b", "a key must be a word"),
        ("- a", "/etc/e.yml: not a mapping"),
        ("a: 1\n---\nb: 2", "not YAML"),
        ("a: \x00", "not YAML"),
        ("[" * 5000, ""),
        ("a: &a [*a]", "nested too deeply, or in itself"),
        ("<<: 5", "<< must name a mapping"),
    ],
)
def test_what_is_not_good_yaml(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert expected in problem


def test_a_file_that_unfolds_without_end_is_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
    )
    (problem,) = problems(bomb)
    assert "unfolds to more than" in problem


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't read the configuration: No such file"):
        load_config(tmp_path / "none.yml")
    (tmp_path / "latin.yml").write_bytes(b"a: \xe4")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        load_config(tmp_path / "latin.yml")


def test_rule_files_are_found(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yml", "x[1].yml"):
        (tmp_path / name).write_text("groups: []")
    (tmp_path / "sub").mkdir()
    shipped = [Path("/pack/one.yml")]
    paths = [
        parse_config(f"rule_files: {given}", tmp_path / "sub" / "e.yml").rule_paths(shipped)
        for given in ('["../[ab].yml", shipped]', '["../x[1].yml"]', f"[{tmp_path}/a.yml]")
    ]
    assert [[p.name for p in found] for found in paths] == [
        ["a.yml", "b.yml", "one.yml"], ["x[1].yml"], ["a.yml"],
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"none\.yml: rule_files: no such file"):
        parse_config("rule_files: [none.yml]", tmp_path / "e.yml").rule_paths(shipped)


def test_problems_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError) as caught:
        parse_config("a: 1\nb: 2", tmp_path / "e.yml")
    assert len(caught.value.problems) == 2
