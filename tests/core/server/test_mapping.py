import pytest

from core.server.exposition import Feature, has_feature


@pytest.mark.parametrize(
    ("feature", "version", "expected"),
    [
        ("cache_salt_completions", "0.9.2", False),
        ("cache_salt_completions", "0.10.0", True),
        ("cache_salt_completions", "0.10", True),
        ("cache_salt_chat", "0.9.0rc1", True),
        ("cache_salt_chat", "0.8.5.post1", False),
        ("unknown_fields_rejected", "0.6.4.post1", True),
        ("unknown_fields_rejected", "0.6.5", False),
        ("max_tokens_clamped", "0.31.1", False),
        ("max_tokens_clamped", "0.32.0+cpu", True),
        ("system_fingerprint", "v0.21.0", True),
        ("system_fingerprint", "1.0.0.dev3+gabc", True),
        ("prefix_counters_in_tokens", "0.8.5", False),
        ("system_fingerprint", None, None),
        ("system_fingerprint", "dev", None),
    ],
)
def test_has_feature(feature: Feature, version: str | None, expected: bool | None) -> None:
    assert has_feature(feature, version) is expected
