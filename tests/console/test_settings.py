"""The configuration in use, as a browser shows and copies it, and what the last reloads changed."""

import re
import tomllib

from playwright.sync_api import Page, expect

from support.console_server import Console
from support.gateway import KEY
from support.page_elements import panel, row

HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_configuration_with_the_origin_of_each_value_and_no_secret(page: Page, console: Console) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    console.sign_in(page, path="/settings")
    shown = panel(page, "Configuration")
    line = shown.get_by_text('url = "sqlite:///streamweir.db"').locator("..")
    expect(line).to_contain_text("# streamweir.toml:3")
    expect(shown.get_by_text("keepalive_s")).to_have_count(0)
    expect(panel(page, "This gateway")).to_contain_text("none since the start")
    assert KEY not in page.get_by_role("main").inner_text()

    shown.get_by_role("button", name="Copy as TOML").click()
    expect(shown.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    read = tomllib.loads(copied)
    assert read["models"][0]["targets"] == [{"provider": "up", "model": "gpt-4o-mini"}]
    assert read["keys"][0] == {"name": "test", "key": f"****{KEY[-4:]}"}
    assert 'id = "smart"  # streamweir.toml:6' in copied

    page.get_by_role("group", name="Which settings").get_by_role("button", name="With defaults").click()
    expect(shown).to_contain_text("header_bytes = 32768")
    expect(shown).to_contain_text("# [server.tls] is not set")
    page.get_by_label("Find a setting").fill("KEEPALIVE_S")
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^\d settings$"))
    expect(shown.get_by_text("header_bytes")).to_have_count(0)
    expect(shown).to_contain_text("[server.timeouts]")
    page.get_by_label("Find a setting").fill("nothing like it")
    expect(shown).to_contain_text("No setting matches.")

    page.get_by_label("Find a setting").fill("")
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="keys.test").click()
    expect(page.get_by_role("region", name="keys.test")).to_be_in_viewport()
    expect(page).to_have_url(re.compile("/console/settings.*#keys.test$"))


def test_what_the_last_reloads_changed(page: Page, console: Console) -> None:
    console.reload(lambda text: f'[server]\nlisten = "127.0.0.1:1"\n{text}'.replace("input = 0.15", "input = 0.25"))
    console.reload(lambda text: text.replace("[server]\n", f'[server]\n"{HOSTILE}" = 1\n'))
    console.sign_in(page, path="/settings")
    reloads = panel(page, "Last reloads")
    expect(reloads.get_by_text("refused")).to_be_visible()
    expect(reloads).to_contain_text(HOSTILE)
    expect(reloads).to_contain_text("unknown key")
    expect(reloads).to_contain_text("The configuration from before stays in use.")
    reloads.get_by_text(re.compile("changes")).click()
    price = row(page, "Changes", "models.smart.price[0].input")
    expect(price).to_contain_text("0.15")
    expect(price).to_contain_text("0.25")
    expect(price).to_contain_text("now")
    expect(row(page, "Changes", "server.listen")).to_contain_text("at a restart")
    expect(panel(page, "Configuration")).to_contain_text("# streamweir.toml:2")
