"""Without the package of a provider, its adapter says at once what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

# ``None`` in sys.modules is what a package that is not there looks like to every kind of import.
PROGRAM = """
import sys
sys.modules[sys.argv[1]] = None
from dsh_tools.errors import ConfigError
from dsh_tools.model import AnthropicModel, OpenAICompatibleModel
model = {"openai": OpenAICompatibleModel, "anthropic": AnthropicModel}[sys.argv[1]]
try:
    model("some-model")
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_a_missing_extra_is_named_when_the_model_is_made(package: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, package], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (
        f'models of "{package}" need their extra: pip install "dsh-tools[{package}]"\n',
        "",
    )
