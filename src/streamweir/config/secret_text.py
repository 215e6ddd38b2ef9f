"""Texts of the configuration that must not be shown: their type, and the tables that have some.

The printed form of a `Secret` is masked, so that a configuration can be printed and logged.
"""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, structs

SecretText = Annotated[str, Meta(extra={"secret": True})]
SecretUrl = Annotated[str, Meta(extra={"secret": True, "url": True})]
"""May have a password: its host is shown, and not its user, password, path and query."""


class Secret(str):
    """Text whose `repr` is masked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'" if self else "''"


class WithSecrets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Converts the fields in `secrets` to `Secret`."""

    secrets: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for name in self.secrets:
            value = getattr(self, name)
            if isinstance(value, dict):
                structs.force_setattr(self, name, {key: Secret(text) for key, text in value.items()})
            elif value is not None:
                structs.force_setattr(self, name, Secret(value))
