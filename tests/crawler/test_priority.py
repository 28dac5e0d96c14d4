import pytest

from crawler.priority import is_advertisement, priority
from crawler.records import Link, LinkKind, Strategy


def test_breadth_first_is_shallow_and_depth_first_is_deep() -> None:
    assert (
        priority(Strategy.BREADTH_FIRST, 0) > priority(Strategy.BREADTH_FIRST, 1) > priority(Strategy.BREADTH_FIRST, 2)
    )
    assert priority(Strategy.DEPTH_FIRST, 2) > priority(Strategy.DEPTH_FIRST, 1) > priority(Strategy.DEPTH_FIRST, 0)


def test_best_first_prefers_telling_links_near_the_seed() -> None:
    headline = Link("http://h/1", "水库今天放水，下游沿岸注意安全")
    number = Link("http://h/2", "2")
    unloved = Link("http://h/3", "水库今天放水，下游沿岸注意安全", rel=("nofollow",))
    order = [priority(Strategy.BEST_FIRST, 1, link) for link in (headline, number, unloved)]
    assert order == sorted(order, reverse=True) and len(set(order)) == 3
    assert priority(Strategy.BEST_FIRST, 1, headline) > priority(Strategy.BEST_FIRST, 2, headline)
    assert priority(Strategy.BEST_FIRST, 0) >= priority(Strategy.BEST_FIRST, 0, headline)
    frame = Link("http://h/f", kind=LinkKind.FRAME)
    assert priority(Strategy.BEST_FIRST, 1, frame) > priority(Strategy.BEST_FIRST, 1, number)


@pytest.mark.parametrize("strategy", Strategy)
def test_advertisements_come_last_however_deep_the_rest_lies(strategy: Strategy) -> None:
    advertisement = Link("http://h/ad/1", "推广")
    page = Link("http://h/1", "1")
    assert priority(strategy, 0, advertisement) < priority(strategy, 100, page)
    assert priority(strategy, 100, advertisement) < priority(strategy, 0, page)


@pytest.mark.parametrize(
    "link",
    [
        Link("http://h/1", "广告"),
        Link("http://h/1", " [Sponsored] "),
        Link("http://h/1", "x", rel=("sponsored",)),
        Link("http://ads.h.cn/1", "x"),
        Link("https://ad.doubleclick.net/1", "x"),
        Link("http://pos.baidu.com/1", "x"),
        Link("http://h/ad_click.php?id=1", "x"),
        Link("http://h/banner/1", "x"),
    ],
)
def test_text_relation_host_or_path_tell_an_advertisement(link: Link) -> None:
    assert is_advertisement(link)


@pytest.mark.parametrize(
    "link",
    [
        Link("http://h/1", "广告法全文"),
        Link("http://h/news/adoption", "Adoption"),
        Link("http://adobe.com/1", "x"),
        Link("http://h/advice/1", "x"),
        Link("http://h/1?u=/ad/", "x"),
        Link("http://h/1", ""),
    ],
)
def test_what_only_begins_like_one_is_none(link: Link) -> None:
    assert not is_advertisement(link)
