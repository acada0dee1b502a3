"""The account of what connections hold back: exact, with kernel and clock replaced by numbers."""

import os
import socket

from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.transport.unread import (
    FRAME_OVERHEAD,
    LONGEST_PAUSE,
    MOST_SWELLING,
    MOST_UNFINISHED,
    SECOND_OVERHEAD,
    SHORTEST_PAUSE,
    SLACK,
    Connected,
    Swelling,
    Unread,
    pause,
)


class Kernel:
    """What came over each connection, what of it waits in the kernel, and what time it is."""

    def __init__(self) -> None:
        self.received: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.now = 0.0
        self.unread = Unread(
            received=lambda each: self.received.get(each),
            waiting=lambda each: self.waiting.get(each, 0),
            clock=lambda: self.now,
        )

    def look(self) -> list[int]:
        self.unread.look(self.received)
        return self.unread.beyond()


def test_who_sends_more_than_a_message_without_ending_it_is_found() -> None:
    kernel = Kernel()
    kernel.received = {7: 0, 8: 0}
    assert kernel.look() == []
    kernel.received[7] = MOST_UNFINISHED
    assert kernel.look() == []
    kernel.received[7] += 100
    assert kernel.look() == [7]
    kernel.unread.took(7, 200)
    assert kernel.unread.beyond() == []


def test_what_waits_in_the_kernel_is_not_held_by_us() -> None:
    kernel = Kernel()
    kernel.received = {7: 0}
    kernel.look()
    kernel.received[7], kernel.waiting[7] = MOST_UNFINISHED + SLACK, SLACK
    assert kernel.look() == []


def test_a_new_connection_under_an_old_number_owes_nothing_and_has_no_credit() -> None:
    kernel = Kernel()
    kernel.unread.took(7, 5 * MOST_UNFINISHED)
    kernel.received = {7: 5 * MOST_UNFINISHED}
    assert kernel.look() == []
    kernel.received = {7: 10}
    assert kernel.look() == []
    kernel.received[7] += MOST_UNFINISHED + 100
    assert kernel.look() == [7]
    del kernel.received[7]
    assert kernel.look() == []
    kernel.unread.took(7, 1)


def test_what_came_before_the_first_look_counts_unless_it_was_taken() -> None:
    kernel = Kernel()
    kernel.unread.took(8, 2 * MOST_UNFINISHED)
    kernel.received = {7: 2 * MOST_UNFINISHED, 8: 2 * MOST_UNFINISHED}
    assert kernel.look() == [7]


def test_who_was_hung_up_on_is_not_found_again_for_the_same_bytes() -> None:
    kernel = Kernel()
    kernel.received = {10**6: 2 * MOST_UNFINISHED}
    assert kernel.look() == [10**6]
    assert not kernel.unread.end(10**6)  # There is no such connection.
    assert kernel.unread.beyond() == kernel.look() == []


def test_heartbeats_of_a_silent_year_add_up_to_nothing() -> None:
    kernel = Kernel()
    kernel.received = {7: 0}
    for _ in range(1000):
        kernel.now += 8 * 3600
        kernel.received[7] += 9 * 8 * 3600 * SECOND_OVERHEAD // 10
        assert kernel.look() == []
    assert kernel.unread.largest[0] <= MOST_UNFINISHED


@given(st.lists(st.tuples(st.integers(0, MOST_UNFINISHED - SLACK), st.integers(0, FRAME_OVERHEAD)), max_size=40))
def test_whose_messages_end_is_never_found(messages: list[tuple[int, int]]) -> None:
    """Any sizes, any overhead up to the allowance; each message is read when it is whole."""
    kernel = Kernel()
    kernel.received = {7: 0}
    kernel.look()
    for size, overhead in messages:
        kernel.received[7] += size // 2
        assert kernel.look() == []
        kernel.received[7] += size - size // 2 + overhead
        assert kernel.look() == []
        kernel.unread.took(7, size)


def test_many_connections_are_looked_at_more_rarely_but_often_enough() -> None:
    assert pause(1) == SHORTEST_PAUSE
    assert SHORTEST_PAUSE < pause(1000) < LONGEST_PAUSE == pause(10**6)


def test_what_was_read_ahead_is_no_growth() -> None:
    size = 0
    swelling = Swelling(lambda: size)
    size = 2 * MOST_SWELLING
    assert not swelling.check(2 * SLACK, MOST_SWELLING)
    # Nor is it part of the size from which growth is measured.
    assert not swelling.check(0, MOST_SWELLING)
    size += 9 * SLACK
    assert swelling.check(2 * SLACK)


def test_growth_beyond_what_is_unread_is_found_once() -> None:
    size = 0
    swelling = Swelling(lambda: size)
    size = MOST_SWELLING
    assert not swelling.check(0)
    size += MOST_SWELLING
    assert not swelling.check(2 * SLACK)
    size += 9 * SLACK
    assert swelling.check(2 * SLACK)
    assert not swelling.check(2 * SLACK)


def test_a_connection_is_found_when_it_comes_and_when_it_comes_back_under_another_number() -> None:
    connected = Connected()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        to_one, to_other = (connected.to(each.getsockname()[1]) for each in (one, other))
        assert (to_one(), to_other()) == (set(), set())
        with socket.create_connection(one.getsockname()) as first:
            assert (to_one(), to_other()) == ({first.fileno()}, set())
            with socket.create_connection(other.getsockname()) as second:
                assert (to_one(), to_other()) == ({first.fileno()}, {second.fileno()})
                # All have what they need, and the number of the first now leads elsewhere.
                os.dup2(second.fileno(), first.fileno())
                third = socket.create_connection(one.getsockname())
                assert to_one() == {third.fileno()}
                assert to_other() == {first.fileno(), second.fileno()}
                third.close()


def test_two_sockets_to_one_port_have_two_connections_even_if_the_second_is_late() -> None:
    connected = Connected()
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = [connected.to(server.getsockname()[1]) for _ in range(2)]
        with socket.create_connection(server.getsockname()) as first:
            assert [each() for each in asked] == [{first.fileno()}] * 2
            with socket.create_connection(server.getsockname()) as second:
                assert [each() for each in asked] == [{first.fileno(), second.fileno()}] * 2
