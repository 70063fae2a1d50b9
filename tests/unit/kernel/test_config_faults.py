"""What is said of a wrong configuration."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from dsh_tools.kernel import config_error, fault_text


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Rule(Strict):
    action: str = ""
    reason: str = ""


class Policy(Strict):
    rules: list[Rule] = []
    fallback: Rule | None = None
    either: Rule | list[int] | None = None
    free: dict[str, int] = {}


class Other(Strict):
    size: int = 0


class Settings(Strict):
    policy: Policy = Policy()
    mixed: Policy | Other | None = None
    names: list[str] = []

    @pydantic.field_validator("names")
    @classmethod
    def _check(cls, value: list[str]) -> list[str]:
        if "" in value:
            raise ValueError("a name cannot be empty")
        return value


def said(settings: dict[str, Any], model: type[pydantic.BaseModel] = Settings) -> str:
    with pytest.raises(pydantic.ValidationError) as refused:
        model.model_validate(settings)
    return config_error(refused.value, model).message


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"polcy": {}}, "polcy: unknown key; did you mean policy?"),
        ({"zzz": 1}, "zzz: unknown key; known are policy, mixed, names"),
        ({"policy": {"rules": [{}, {"acton": "x"}]}}, "policy.rules.1.acton: unknown key; did you mean action?"),
        ({"policy": {"fallback": {"zzz": 1}}}, "policy.fallback.zzz: unknown key; known are action, reason"),
        ({"policy": 5}, "policy: must be a mapping of settings"),
        ({"names": 5}, "names: must be a list"),
        ({"names": [""]}, "names: a name cannot be empty"),
        (
            {"names": [1], "zzz": 1},
            "names.0: Input should be a valid string\nzzz: unknown key; known are policy, mixed, names",
        ),
    ],
)
def test_each_fault_is_a_line_with_its_key(settings: dict[str, Any], text: str):
    assert said(settings) == text


def test_where_several_models_are_possible_no_keys_are_named():
    assert "mixed.Policy.zzz: unknown key\n" in said({"mixed": {"zzz": 1}})


def test_without_a_model_no_keys_are_named():
    fault = {"type": "extra_forbidden", "loc": ("a", "b"), "msg": ""}
    for model in (None, "text", lambda config: config):
        assert fault_text(fault, model) == "unknown key"
