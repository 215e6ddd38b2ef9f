"""The guard of the browser tests sees what a page must not do. Its own pages do it."""

from playwright.sync_api import Browser, Route

from support.axe import obstacles
from support.page_monitor import PageWatch
from support.web import needs_web

BASE_URL = "http://127.0.0.1:1"
POLICY = "default-src 'none'; script-src 'nonce-x'; require-trusted-types-for 'script'"
HEAD = "<!doctype html><html lang=en><title>x</title><link rel=icon href=data:,>"


def lines_of(browser: Browser, body: str, policy: str = "") -> list[str]:
    """What is written down of such a page."""

    def answer(route: Route) -> None:
        if route.request.url.startswith(BASE_URL):
            headers = {"content-security-policy": policy} if policy else {}
            route.fulfill(body=f"{HEAD}{body}", content_type="text/html", headers=headers)
        else:
            route.fulfill(body="")

    with browser.new_context() as context:
        watch = PageWatch(context, BASE_URL)
        context.route("**", answer)
        page = context.new_page()
        page.goto(BASE_URL)
        return watch.seen()


def test_a_good_page_leaves_no_line(browser: Browser) -> None:
    assert lines_of(browser, "<script>console.warn('a word')</script>") == []


def test_a_dialog_is_seen(browser: Browser) -> None:
    assert lines_of(browser, "<script>alert(1); confirm('sure?')</script>") == [
        "dialog: alert 1",
        "dialog: confirm sure?",
    ]


def test_a_request_to_another_host_is_seen(browser: Browser) -> None:
    assert lines_of(browser, "<img src=//evil.test/x.png>") == ["foreign: GET http://evil.test/x.png"]


def test_errors_are_seen(browser: Browser) -> None:
    lines = lines_of(browser, "<script>console.error('told')</script><script>throw new Error('not caught')</script>")
    assert [line.split("http")[0] for line in lines] == ["console: told ", "error: not caught"]


def test_what_the_policy_forbids_is_seen(browser: Browser) -> None:
    inline = lines_of(browser, "<script>alert(1)</script>", POLICY)
    assert any("policy violated: script-src-elem inline" in line for line in inline)
    sink = lines_of(browser, "<script nonce=x>document.createElement('b').innerHTML = '<i>'</script>", POLICY)
    assert any("policy violated: require-trusted-types-for" in line for line in sink)
    image = lines_of(browser, "<img src=//evil.test/x.png>", POLICY)
    assert any("policy violated: img-src http://evil.test/x.png" in line for line in image)


@needs_web
def test_axe_finds_what_is_in_the_way(browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content("<html lang=en><title>x</title><main><h1>x</h1><input></main>")
        (line,) = obstacles(page)
        assert line.startswith("critical label: ['input']")
        page.set_content("<html lang=en><title>x</title><main><h1>x</h1><input aria-label=x></main>")
        assert obstacles(page) == []
