"""Converts all sections of the old file, in the order of their dependencies."""

from typing import NamedTuple

from streamweir.config.litellm import unsupported
from streamweir.config.litellm.deployment import Deployments
from streamweir.config.litellm.route import model_table, strategy_of
from streamweir.config.litellm.setting import Settings, Table, models_of
from streamweir.config.litellm.toml import write
from streamweir.config.litellm.tree import Branch, Note, Notes, copy_tree, strings_in
from streamweir.config.litellm.variable import Variables


class Translation(NamedTuple):
    toml: str
    dropped: list[Note]
    """Settings that were not converted."""
    actions: list[Note]
    """What the operator has to do or to know."""
    variables: list[str]
    """Environment variables that must be set."""


def translate(tree: object) -> Translation:
    """Raises `NotAConfiguration`."""
    plain = copy_tree(tree)
    notes = Notes()
    top = Branch(plain, "", notes)
    environment = top.branch("environment_variables")
    variables = Variables(strings_in(plain), environment.names(), notes)
    deployments = Deployments(top, variables)
    settings = Settings(top, variables)
    toml = write(_tables(deployments, settings, notes))
    used = [name for name in variables.used if f"${{{name}}}" in toml]
    for name in environment.names():
        environment.take(name)
        if name in used:
            notes.add_action(environment.path_of(name), f"set {name} in the environment")
        else:
            notes.add_dropped(environment.path_of(name), "nothing here uses it")
    top.report_remaining(unsupported.TOP)
    return Translation(toml, notes.dropped, notes.actions, used)


def _tables(deployments: Deployments, settings: Settings, notes: Notes) -> list[Table]:
    groups = deployments.groups
    strategy = strategy_of(settings.strategy, notes)
    settings.report_unknown(groups)
    models = models_of(groups, settings.aliases, notes)
    tables = settings.tables(models)
    tables += [("[[providers]]", table) for table in deployments.providers.tables.values()]
    for name, group in models.items():
        model_notes = notes if name == group else Notes()  # for an alias, the notes would be duplicates
        model = model_table(group, groups, settings.fallbacks_of(name, group, groups), strategy, model_notes)
        tables.append(("[[models]]", {**model, "id": name.replace("$", "$$")}))
    return [*tables, *settings.keys()]
