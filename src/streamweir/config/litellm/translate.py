"""The whole translation: the sections of the old file, in the order in which they depend on each other."""

from typing import NamedTuple

from streamweir.config.litellm import unsupported
from streamweir.config.litellm.deployment import Deployments
from streamweir.config.litellm.route import strategy_of, write_model
from streamweir.config.litellm.setting import Settings, Table, models_of
from streamweir.config.litellm.toml import write
from streamweir.config.litellm.tree import Branch, Note, Notes, plain_tree, texts_of
from streamweir.config.litellm.variable import Variables


class Translation(NamedTuple):
    toml: str
    lost: list[Note]
    """What is not in it."""
    due: list[Note]
    """What the operator has to do, or to know."""
    variables: list[str]
    """What must be set in the environment."""


def translate(tree: object) -> Translation:
    """Raises `NotATree` for what is no configuration at all."""
    plain = plain_tree(tree)
    notes = Notes()
    top = Branch(plain, "", notes)
    environment = top.branch("environment_variables")
    variables = Variables(texts_of(plain), environment.names(), notes)
    deployments = Deployments(top, variables)
    settings = Settings(top, variables)
    toml = write(_tables(deployments, settings, notes))
    used = [name for name in variables.used if f"${{{name}}}" in toml]
    for name in environment.names():
        environment.take(name)
        if name in used:
            notes.ask(environment.at(name), f"set {name} in the environment")
        else:
            notes.lose(environment.at(name), "nothing here uses it")
    top.leave(unsupported.TOP)
    return Translation(toml, notes.lost, notes.due, used)


def _tables(deployments: Deployments, settings: Settings, notes: Notes) -> list[Table]:
    groups = deployments.groups
    strategy = strategy_of(settings.strategy, notes)
    settings.tell_unknown(groups)
    models = models_of(groups, settings.aliases, notes)
    tables = settings.tables(models)
    tables += [("[[providers]]", table) for table in deployments.providers.tables.values()]
    for name, group in models.items():
        heard = notes if name == group else Notes()  # of an alias, everything is said already
        model = write_model(group, groups, settings.fallbacks_of(name, group, groups), strategy, heard)
        tables.append(("[[models]]", {**model, "id": name.replace("$", "$$")}))
    return [*tables, *settings.keys()]
