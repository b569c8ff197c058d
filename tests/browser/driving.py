"""A lesson used as a reader would: every map, every slider, every question, and what else can be chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SEALED = "Commit to a guess above"


def drive(page: Page) -> dict[str, int]:
    """Play, step and scrub every timeline, move every slider, answer every question: how many there were.

    Whatever does not do its part fails an assertion.
    """
    assert page.get_by_text("This widget cannot be shown").count() == 0
    for place in page.locator("[data-model]").all():
        expect(place.locator("> *").first).to_be_attached()
    moved = move(page)
    questions = page.locator(".pl-predict:visible").all()
    for question in questions:
        change = question.get_by_role("button", name="Change my guess")
        if change.is_visible():
            change.press("Enter")
        number = question.get_by_role("spinbutton")
        number.fill(number.get_attribute("max") or "1")
        number.press("Enter")
        expect(question).to_have_attribute("data-state", "committed")
    expect(page.get_by_text(SEALED)).to_have_count(0)
    if page.locator(".control").count():
        expect(page.get_by_text("asks a kernel: run the lesson").first).to_be_visible()
    return {**moved, "questions": len(questions)}


def move(page: Page) -> dict[str, int]:
    """Play, step and scrub every timeline, move every slider of a widget: how many there were."""
    bars = page.locator(".pl-bar:visible").all()
    for bar in bars:
        _play(bar)
    sliders = page.locator(".pl-widget input[type=range]:not(.pl-scrub):visible:enabled").all()
    for slider in sliders:
        slider.press("Home")
        before = slider.get_attribute("aria-valuetext")
        slider.press("End")
        expect(slider).not_to_have_attribute("aria-valuetext", before or "")
    return {"timelines": len(bars), "sliders": len(sliders)}


def choose(page: Page) -> int:
    """Take another option of the first choice there is, that of a speed apart, and see its output change."""
    choice = page.locator(".jp-OutputArea-output select:visible:enabled:not([aria-label=Speed])").first
    if not choice.count():
        return 0
    output = choice.locator("xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')][1]")
    before, last = output.inner_text(), choice.locator("option").count() - 1
    choice.select_option(index=0 if choice.evaluate("choice => choice.selectedIndex") == last else last)
    changed = "([output, before]) => output.innerText !== before"
    page.wait_for_function(changed, arg=[output.element_handle(), before], timeout=60_000)
    return 1


def _play(bar: Locator) -> None:
    scrub = bar.get_by_role("slider", name="Step")
    scrub.press("End")
    last = int(scrub.get_attribute("max") or 0)
    expect(scrub).to_have_value(str(last))
    bar.get_by_role("button", name="Step back").press("Enter")
    expect(scrub).to_have_value(str(last - 1))
    scrub.press("Home")
    bar.get_by_role("button", name="Play").press("Enter")
    expect(scrub).not_to_have_value("0")
    pause = bar.get_by_role("button", name="Pause")
    if pause.count():
        pause.press("Enter")
