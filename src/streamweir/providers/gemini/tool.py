"""Tools and the choice among them: `tools` and `toolConfig`.

The schema of a function is sent unchanged, as JSON Schema: both services accept it under `parametersJsonSchema`. Tools
that Google runs itself are requested by their type.
"""

from typing import Any

from streamweir.core.request import ChatRequest, Function

# Callers' spellings of Google's own tools; a member of the same name has their settings.
_OWN_TOOLS = {
    "google_search": "googleSearch",
    "googleSearch": "googleSearch",
    "code_execution": "codeExecution",
    "codeExecution": "codeExecution",
    "url_context": "urlContext",
    "urlContext": "urlContext",
    "google_maps": "googleMaps",
    "googleMaps": "googleMaps",
}
WEB_SEARCH = "web_search"
"""The kind of server tool (`core.request.ServerTool`) that Google has."""
_MODES = {"none": "NONE", "auto": "AUTO", "required": "ANY", "function": "ANY"}


def plan_tools(request: ChatRequest, dropped: list[str]) -> dict[str, Any]:
    """The members `tools` and `toolConfig`, each only if it is needed."""
    member = "functions" if request.uses_legacy_functions else "tools"
    choice = request.tool_choice
    declarations = []
    own = []
    for number, tool in enumerate(request.tools):
        path_of_part = f"{member}[{number}]"
        function = tool.function
        if tool.cache_control is not None:
            dropped.append(f"{path_of_part}.cache_control")
        if function is None:
            name = _OWN_TOOLS.get(tool.type)
            if name is None:
                dropped.append(path_of_part)
            else:
                settings = request.body["tools"][number].get(tool.type)
                own.append({name: settings if isinstance(settings, dict) else {}})
            continue
        if function.strict:
            dropped.append(
                f"{path_of_part}.strict" if request.uses_legacy_functions else f"{path_of_part}.function.strict"
            )
        # Gemini can restrict only a call that is required. For an optional one, the other functions are not sent.
        if choice is None or choice.mode != "auto" or not choice.allowed or function.name in choice.allowed:
            declarations.append(_declaration(function))
    for kind, where in request.server_tools:
        if declarations or kind != WEB_SEARCH:  # refused together with functions
            dropped.append(where)
        else:
            own.append({"googleSearch": {}})
    planned: dict[str, Any] = {}
    if declarations or own:
        planned["tools"] = [*([{"functionDeclarations": declarations}] if declarations else []), *own]
    if choice is not None and declarations:
        config: dict[str, Any] = {"mode": _MODES[choice.mode]}
        names = [choice.name] if choice.name is not None else list(choice.allowed)
        if names and choice.mode in ("required", "function"):
            config["allowedFunctionNames"] = names
        planned["toolConfig"] = {"functionCallingConfig": config}
    elif choice is not None and choice.mode in ("required", "function"):
        dropped.append("tool_choice" if request.body.get("tool_choice") is not None else "function_call")
    return planned


def _declaration(function: Function) -> dict[str, Any]:
    made: dict[str, Any] = {"name": function.name}
    if function.description is not None:
        made["description"] = function.description
    if function.parameters:
        made["parametersJsonSchema"] = function.parameters
    return made
