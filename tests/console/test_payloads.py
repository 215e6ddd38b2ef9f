"""The corpus of the tests against markup: as many as promised, no two alike, and sharp where markup is believed."""

from playwright.sync_api import Browser, Route

from console.payloads import FAMILIES, PAYLOADS
from support.page_monitor import PageWatch

BASE_URL = "http://127.0.0.1:1"


def test_there_are_two_hundred() -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 200


def test_a_page_that_believes_them_is_caught(browser: Browser) -> None:
    """Those that need neither a click nor an old browser: else the other tests would prove nothing."""

    def answer(route: Route) -> None:
        body = f"<!doctype html><body>{sharp}" if route.request.url.startswith(BASE_URL) else ""
        route.fulfill(body=body, content_type="text/html; charset=utf-8")

    for family in ("script", "handler", "svg", "frame", "style"):
        sharp = FAMILIES[family][0]
        with browser.new_context() as context:
            watch = PageWatch(context, BASE_URL)
            context.route("**", answer)
            context.new_page().goto(BASE_URL)
            assert watch.seen(), sharp
