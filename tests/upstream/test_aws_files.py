"""The shared files of AWS, against botocore: what it takes from a file is taken here, and nothing else."""

from pathlib import Path

import pytest
from botocore.session import Session

from streamweir.core.errors import UpstreamError
from streamweir.upstream.cloud.aws_source import AwsSettings, KeySource

PAIR = "aws_access_key_id = AKIA1\naws_secret_access_key = s/1\n"
OTHER = "aws_access_key_id = AKIA2\naws_secret_access_key = s/2\n"
FILES = {
    # name: config, credentials, profile
    "plain": ("", f"[default]\n{PAIR}", None),
    "comment_lines": ("", f"# one\n[default]\n; two\n  # three\n{PAIR}#region = x\n", None),
    "hash_inside_a_value": ("", "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s#1;2\n", None),
    "comment_behind_a_value": ("", PAIR.join(["[default]\n", ""]).replace("AKIA1", "AKIA1 # mine"), None),
    "comment_behind_two_blanks": ("", PAIR.join(["[default]\n", ""]).replace("AKIA1", "AKIA1  # mine"), None),
    "semicolon_behind_a_value": ("", PAIR.join(["[default]\n", ""]).replace("s/1", "s/1 ; mine"), None),
    "colons": ("", f"[default]\n{PAIR.replace(' = ', ': ')}", None),
    "capitals": ("", f"[default]\n{PAIR.replace('aws_', 'AWS_')}", None),
    "both_files": (f"[profile p]\n{OTHER}", f"[p]\n{PAIR}", "p"),
    "quoted_name": (f'[profile "my team"]\n{PAIR}', "", "my team"),
    "blanks_before_the_name": (f"[profile   p]\n{PAIR}", "", "p"),
    "settings_for_all": (f"[DEFAULT]\n{PAIR}[profile p]\nregion = x\n", "", "p"),
    "no_word_before_the_name": (f"[p]\n{PAIR}", "", "p"),
    "word_in_the_credentials": ("", f"[profile p]\n{PAIR}", "p"),
    "quotation_mark_without_an_end": (f'[profile "p]\n{PAIR}', "", "p"),
    "nested": (f"[default]\ns3 =\n  max_queue = 1\n{PAIR}", "", None),
}


@pytest.mark.parametrize("case", FILES)
async def test_files(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, credentials, profile = FILES[case]
    files = {"AWS_CONFIG_FILE": tmp_path / "config", "AWS_SHARED_CREDENTIALS_FILE": tmp_path / "credentials"}
    for path, text in zip(files.values(), (config, credentials), strict=True):
        path.write_text(text)
    environment = {name: str(path) for name, path in files.items()} | {"AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    theirs = botocore_keys(profile)
    source = KeySource(AwsSettings(region="eu-central-1", source="profile", profile=profile), environment)
    if theirs is None or not "".join(theirs).isprintable() or " " in "".join(theirs):
        with pytest.raises(UpstreamError) as caught:
            await source.fetch()
        assert "A comment needs a line of its own." in caught.value.message or theirs is None
    else:
        keys = (await source.fetch()).value
        assert (keys.access_key_id, keys.secret_access_key) == theirs


def botocore_keys(profile: str | None) -> tuple[str, str] | None:
    session = Session(profile=profile)
    if profile is not None and profile not in session.available_profiles:
        return None
    keys = session.get_credentials()
    return None if keys is None else (keys.access_key, keys.secret_key)
