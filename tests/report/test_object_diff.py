from __future__ import annotations

from replay.report.run.mutations import object_diff

POD = {
    "kind": "Pod",
    "metadata": {"labels": {"app": "web"}, "name": "web"},
    "spec": {"containers": [{"image": "a", "name": "one"}, {"image": "b", "name": "two", "x": "\x1b[31m"}]},
}


def test_what_differs_with_the_fields_around_it() -> None:
    after = {
        **POD,
        "metadata": {"labels": {"app": "web", "team": "b"}, "name": "web"},
        "spec": {"containers": [{"image": "a", "name": "one"}, {"image": "c", "name": "two", "x": "\x1b[31m"}]},
    }
    assert object_diff(POD, after).split("\n") == [
        "@@ metadata > labels @@",
        "    labels:",
        "      app: web",
        "+     team: b",
        "    name: web",
        "  spec:",
        "@@ spec > containers @@",
        "    - image: a",
        "      name: one",
        "-   - image: b",
        "+   - image: c",
        "      name: two",
        '      x: "\\e[31m"',
    ]


def test_equal_objects_have_no_diff() -> None:
    assert object_diff(POD, POD) == ""
