"""From a name on the command line to a model adapter."""

from __future__ import annotations

from ..errors import ConfigError
from ..model import AnthropicModel, ModelAdapter, OpenAICompatibleModel, RetryingModel

__all__ = ["open_model"]


def open_model(name: str, base_url: str | None = None) -> ModelAdapter:
    """Return the adapter for ``provider:model``; failed requests are tried again.

    Parameters:
        name: ``openai:NAME`` for any server of chat completions, ``anthropic:NAME`` for the messages API; a bare
            ``claude…`` or anything with ``base_url`` picks the provider by itself.
        base_url: where the server is; keys come from the provider's environment variable.

    Raises:
        ConfigError: the provider is not known, or its extra is not installed.
    """
    provider, separator, model = name.partition(":")
    if not separator:
        provider, model = ("anthropic" if name.startswith("claude") and base_url is None else "openai"), name
    if not model:
        raise ConfigError(f'--model {name}: name a model, such as "openai:NAME"')
    if provider == "openai":
        return RetryingModel(OpenAICompatibleModel(model, base_url=base_url))
    if provider == "anthropic":
        return RetryingModel(AnthropicModel(model, base_url=base_url))
    raise ConfigError(f'--model {name}: the provider is "openai" or "anthropic", got "{provider}"')
