"""The models that the clouds have listed, by provider: what `server.request.lookup.model_refresh` has read last.

A list survives reloads, as long as its provider is the same server. It only adds names to those that are known in
advance: a model that is not listed can be requested too, and one that is listed may be refused.
"""

from collections.abc import Collection, Sequence

from streamweir.config.address import base_url_of
from streamweir.config.model import Provider
from streamweir.providers.model_listing import Listing, listing_of
from streamweir.server.request.runtime.target_settings import server_of


def listing_for(provider: Provider) -> Listing | None:
    """How this provider is asked for its models. None: it is not asked, because the operator names its models or does
    not want it, or because it is not known to have such a list."""
    listing, address = listing_of(provider.kind), base_url_of(provider)
    if listing is None or address is None or provider.models or provider.list_models is False:
        return None
    return listing if provider.list_models or listing.is_at_cloud(address) else None


class ModelLists:
    def __init__(self) -> None:
        self._lists: dict[str, tuple[list[object], tuple[str, ...]]] = {}

    def names_of(self, provider: Provider) -> Sequence[str]:
        known = self._lists.get(provider.name)
        if known is None or known[0] != server_of(provider) or listing_for(provider) is None:
            return ()
        return known[1]

    def put(self, provider: Provider, names: tuple[str, ...]) -> None:
        self._lists[provider.name] = server_of(provider), names

    def keep(self, providers: Collection[str]) -> None:
        """Drops the lists of all others."""
        self._lists = {name: known for name, known in self._lists.items() if name in providers}
