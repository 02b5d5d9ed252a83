"""Warnings of an answer: each once, cut when they are many, never more than fit the headers."""

from collections.abc import Iterator

from quarterdeck.apiserver.builtin.pod.warning import pod_warnings
from quarterdeck.apiserver.registry.warning import Warnings


def texts(warnings: Warnings) -> list[str]:
    return [value for _, value in warnings.headers()]


def recorded(*given: str) -> Warnings:
    warnings = Warnings()
    warnings.add_all(given)
    return warnings


def test_empty_texts_and_texts_with_control_characters_are_not_sent() -> None:
    assert recorded("", "a\nb", 'q"', "back\\").headers() == [
        ("Warning", '299 - "q\\""'),
        ("Warning", '299 - "back\\\\"'),
    ]
    assert not recorded("", "a\nb")


def test_a_text_is_sent_once() -> None:
    assert texts(recorded("a", "b", "a")) == ['299 - "a"', '299 - "b"']


def test_texts_that_just_fit_are_sent_whole() -> None:
    assert texts(recorded("x" * 4096)) == [f'299 - "{"x" * 4096}"']


def test_texts_too_long_together_are_cut_and_those_too_many_left_out() -> None:
    cut = texts(recorded(*(f"{index}{'x' * 300}" for index in range(20))))
    assert len(cut) == 16
    assert cut[3] == f'299 - "3{"x" * 255}"'


def test_texts_after_the_first_cut_fill_the_room_they_left() -> None:
    shown = texts(recorded("x" * 4000, "y" * 97, *(f"{index:04}" for index in range(2000))))
    assert shown[:3] == [f'299 - "{"x" * 256}"', f'299 - "{"y" * 97}"', '299 - "0000"']
    # 256 + 97 characters, then texts of four until 4096 are reached
    assert len(shown) == 2 + -(-(4096 - 256 - 97) // 4)


def test_a_full_answer_asks_for_no_more_warnings() -> None:
    asked = 0

    def endless() -> Iterator[str]:
        nonlocal asked
        while True:
            asked += 1
            yield f"warning {asked}"

    Warnings().add_all(endless())
    assert asked < 4096


def test_ports_of_one_number_warn_as_upstream_orders_it() -> None:
    def port(**host: object) -> dict[str, object]:
        return {"containerPort": 1, "protocol": "TCP", **host}

    ports = [
        port(),
        port(hostPort=80),
        port(hostPort=80, hostIP="10.0.0.1"),
        port(hostPort=80),
        port(hostPort=81),
    ]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": ports}]}}
    head = "spec.containers[0].ports"
    assert list(pod_warnings(pod)) == [
        f"{head}[1]: overlapping port definition with {head}[0]",
        f"{head}[2]: overlapping port definition with {head}[0]",
        f"{head}[2]: dangerously ambiguous port definition with {head}[1]",
        f"{head}[3]: overlapping port definition with {head}[0]",
        f"{head}[3]: duplicate port definition with {head}[1]",
        f"{head}[3]: dangerously ambiguous port definition with {head}[2]",
        f"{head}[4]: overlapping port definition with {head}[0]",
    ]
