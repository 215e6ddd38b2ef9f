"""Converts all sections of the old file, in the order of their dependencies."""

from typing import NamedTuple

from streamweir.config.litellm import unsupported
from streamweir.config.litellm.deployment import Deployments
from streamweir.config.litellm.model import Models
from streamweir.config.litellm.report import Note, Report
from streamweir.config.litellm.setting import Settings
from streamweir.config.litellm.tree import Branch, copy_tree, strings_in
from streamweir.config.litellm.variable import Variables
from streamweir.config.toml import write


class Translation(NamedTuple):
    toml: str
    converted: list[str]
    """The paths of settings that were converted, and about which there is nothing to say."""
    noted: list[Note]
    """Settings that were converted, and what the operator has to do or to know."""
    dropped: list[Note]
    """Settings that were not converted, and why."""
    variables: list[str]
    """Environment variables that must be set."""


def translate(tree: object) -> Translation:
    """Raises `NotAConfiguration`."""
    plain, whole = copy_tree(tree), copy_tree(tree)
    report = Report()
    top = Branch(plain, "", report)
    environment = top.branch("environment_variables")
    variables = Variables(strings_in(plain), environment.names(), report)
    settings = Settings(top, variables)
    models = Models(Deployments(top, *settings.defaults, variables).all, settings, report)
    toml = write([*settings.tables(models.names), *models.tables(), *settings.keys()])
    used = [name for name in variables.used if f"${{{name}}}" in toml]
    for name in environment.names():
        environment.take(name)
        if name in used:
            environment.note(name, f"set {name} in the environment")
        else:
            environment.drop(name, "nothing here uses it")
    top.report_remaining(unsupported.TOP)
    return Translation(toml, *report.finish(whole), sorted(used, key=lambda name: toml.index(f"${{{name}}}")))
