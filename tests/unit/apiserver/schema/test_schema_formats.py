"""String formats: accepted and refused values, each checked against upstream's Go functions."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.schema.formats import CHECKERS, checked, checker

#: format -> accepted, refused
VALUES: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["x", "507f1f77bcf86cd79943901g"]),
    "byte": (["YQ==", "YWI=", "YWJj"], ["", "a", "YQ=", "YW_j", "YQ==\n"]),
    "cidr": (
        ["1.2.3.4/8", "::/0", "::1/128", "01.2.3.4/008", "::ffff:01.2.3.4/120"],
        ["1.2.3.4/33", "1.2.3.4/", "::1/129", "1.2.3.4", "1.2.3.4/-1"],
    ),
    "creditcard": (["4111111111111111", "4111-1111-1111-1111"], ["4111111111111112", ""]),
    "date": (
        ["2020-01-01", "2000-02-29", "0000-02-29"],
        ["2020-02-30", "2019-02-29", "1900-02-29", "2020-13-01", "2020-1-1", " 2020-01-01", "2020-01-00"],
    ),
    "date-time": (
        ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.123+01:00", "2020-01-01T00:00:00x5z"],
        [
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:00:60Z",
            "2020-01-01T00:00:00",
            "2020-01-01 00:00:00Z",
            "2020",
        ],
    ),
    "duration": (
        [
            "1h",
            "1.5h",
            "-1h30m",
            "0",
            "+0",
            "3 days",
            "PT1H",
            "1µs",
            "1μs",
            ".5s",
            "5.s",
            "1 Weeks",
            "1 micron",
        ],
        ["", "1", ".s", "1 fortnight", "99999999999999999999 s", "h"],
    ),
    "email": (
        ["a@b", "Name <a@b>", '"x y"@b', "a@[1.2.3.4]", "a@b (c)", "ü@b", "g: a@b;", "John Q. Public <a@b>"],
        [
            "a b",
            "a..b@c",
            ".a@b",
            "a@b.",
            "a@[1.2.3]",
            "g:;",
            "a@b, c@d",
            '""@b',
            "a@b (c",
            "",
            "=?x?q?y?= <a@b>",
        ],
    ),
    "hexcolor": (["#fff", "FFFFFF"], ["#ffff", "#gggggg"]),
    "hostname": (["a", "a-", "a.com", "ü.de", "😀.com", "x" * 63], ["-a", "a_b", "a.c", "x" * 64, ""]),
    "ipv4": (["1.2.3.4", "01.02.03.04", "::ffff:1.2.3.4"], ["256.1.1.1", "1.2.3", "::1", "1.2.3.4."]),
    "ipv6": (
        ["::1", "::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"],
        ["1::2::3", "fe80::1%eth0", "1.2.3.4", "::g"],
    ),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044", "x"]),
    "isbn10": (["0-321-75104-3"], ["978-0321751041"]),
    "isbn13": (["9780321751041"], ["0321751043", "9780321751042"]),
    "k8s-short-name": (["a", "a-b", "a" * 63], ["A", "-a", "a.b", "a" * 64, ""]),
    "k8s-long-name": (["a.b", "a" * 253], ["A", "a..b", "a-.b", "a" * 254, ""]),
    "mac": (
        ["00:00:00:00:00:00", "00-00-00-00-00-00", "0000.0000.0000", "000000000000"],
        ["00:00:00:00:00:0g", "00:00-00:00:00:00", "0000-0000-0000"],
    ),
    "password": (["", "anything"], []),
    "rgbcolor": (["rgb(1,2,3)", "rgb( 1 , 2 , 3 )"], ["rgb(256,0,0)", "rgb(01,2,3)"]),
    "ssn": (["123-45-6789", "123 45 6789"], ["123456789"]),
    "uri": (
        [
            "http://a",
            "/a",
            "*",
            "http://[::1]:80/x",
            "mailto:x",
            "http://u:p@h",
            "ftp://a:1:2",
            "http://[fe80::1%25en0]",
        ],
        [
            "",
            "a",
            "http://a b",
            "http://[::1",
            "http://a:b",
            "http://a/%zz",
            "http://a%41",
            "http://[1.2.3.4]",
            ":x",
        ],
    ),
    "uuid": (
        ["00000000-0000-0000-0000-000000000000", "F" * 32],
        ["0000000-0000-0000-0000-000000000000", "x"],
    ),
    "uuid3": (["ffffffff-ffff-3fff-0fff-ffffffffffff"], ["ffffffff-ffff-4fff-8fff-ffffffffffff"]),
    "uuid4": (["ffffffff-ffff-4fff-8fff-ffffffffffff"], ["ffffffff-ffff-4fff-0fff-ffffffffffff"]),
    "uuid5": (["ffffffff-ffff-5fff-8fff-ffffffffffff"], ["ffffffff-ffff-4fff-8fff-ffffffffffff"]),
}


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        (name, value, accepted)
        for name, (good, bad) in VALUES.items()
        for values, accepted in ((good, True), (bad, False))
        for value in values
    ],
)
def test_formats(name: str, value: str, accepted: bool) -> None:
    check = checker(name)
    assert check is not None
    assert check(value) is accepted


def test_every_format_has_examples() -> None:
    assert {name.replace("-", "") for name in VALUES} | {"datetime"} == set(CHECKERS)


def test_dashes_in_names_do_not_matter() -> None:
    assert checker("date-time") is checker("datetime") is not None


@pytest.mark.parametrize(
    ("name", "types", "expected"),
    [
        ("date", ("string",), "date"),
        ("date", (), "date"),
        ("date", ("integer", "string"), "date"),
        ("int32", ("integer",), "int32"),
        ("int32", ("string",), ""),
        ("int32", ("integer", "string"), ""),
        ("float", ("number",), "float"),
        ("int32", ("number",), ""),
        ("date", ("integer",), ""),
        ("date", ("object",), ""),
        ("unheard-of", ("string",), ""),
    ],
)
def test_a_format_counts_only_for_its_type(name: str, types: tuple[str, ...], expected: str) -> None:
    assert checked(name, types) == expected
