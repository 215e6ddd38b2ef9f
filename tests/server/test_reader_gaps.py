"""When nobody read a stream: bounded, and counted."""

from streamweir.server.streams.gaps import MAX_GAPS, ReaderGaps


def test_a_gap_that_is_open_has_no_end() -> None:
    gaps = ReaderGaps()
    assert (gaps.since(0.0), gaps.count, gaps.is_open) == ((), 0, False)
    gaps.begin(11.0)
    gaps.begin(12.0)
    assert (gaps.since(10.0), gaps.count, gaps.is_open) == (((1.0, None),), 1, True)
    gaps.end(13.0)
    gaps.end(14.0)
    assert (gaps.since(10.0), gaps.count, gaps.is_open) == (((1.0, 3.0),), 1, False)


def test_the_first_ones_and_the_last_that_is_open_are_kept_and_all_are_counted() -> None:
    gaps = ReaderGaps()
    for number in range(1000):
        gaps.begin(number)
        gaps.end(number + 0.5)
    assert gaps.since(0.0) == tuple((float(number), number + 0.5) for number in range(MAX_GAPS - 1))
    gaps.begin(2000.0)
    assert gaps.since(0.0)[-1] == (2000.0, None)
    assert len(gaps.since(0.0)) == MAX_GAPS
    assert gaps.count == 1001
