"""Settings of the default composition that are wrong."""

from __future__ import annotations

import pytest

from dsh_tools import standard
from dsh_tools.errors import ConfigError


async def test_a_misspelt_setting_is_told_with_the_right_one(no_leaks: None):
    with pytest.raises(ConfigError) as refused:
        async with standard(tols={}, tools={"mod": "code"}):
            raise AssertionError("nothing is mounted")
    assert refused.value.message == (
        "tools.mod: unknown key; did you mean mode?\ntols: unknown key; did you mean tools?"
    )
