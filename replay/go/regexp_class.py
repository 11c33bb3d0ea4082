"""Classes of characters in regular expressions: the names that Go knows, and what RE2 calls them."""

from __future__ import annotations

import re
from typing import Final


class UnsupportedRegexpError(ValueError):
    """A pattern that Go takes and that cannot be said in RE2; `str()` says what of it."""


_CATEGORIES: Final = frozenset(
    """
    C Cc Cf Cn Co Cs L Lc Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
    """.split()  # noqa: SIM905 - a list of them would take a page
)
_CATEGORY_ALIASES: Final = {
    "Casedletter": "Lc",
    "Closepunctuation": "Pe",
    "Combiningmark": "M",
    "Connectorpunctuation": "Pc",
    "Control": "Cc",
    "Currencysymbol": "Sc",
    "Dashpunctuation": "Pd",
    "Decimalnumber": "Nd",
    "Enclosingmark": "Me",
    "Finalpunctuation": "Pf",
    "Format": "Cf",
    "Initialpunctuation": "Pi",
    "Letter": "L",
    "Letternumber": "Nl",
    "Lineseparator": "Zl",
    "Lowercaseletter": "Ll",
    "Mark": "M",
    "Mathsymbol": "Sm",
    "Modifierletter": "Lm",
    "Modifiersymbol": "Sk",
    "Nonspacingmark": "Mn",
    "Number": "N",
    "Openpunctuation": "Ps",
    "Other": "C",
    "Otherletter": "Lo",
    "Othernumber": "No",
    "Otherpunctuation": "Po",
    "Othersymbol": "So",
    "Paragraphseparator": "Zp",
    "Privateuse": "Co",
    "Punctuation": "P",
    "Separator": "Z",
    "Spaceseparator": "Zs",
    "Spacingmark": "Mc",
    "Surrogate": "Cs",
    "Symbol": "S",
    "Titlecaseletter": "Lt",
    "Unassigned": "Cn",
    "Uppercaseletter": "Lu",
    "Cntrl": "Cc",
    "Digit": "Nd",
    "Punct": "P",
}
_SCRIPTS: Final = frozenset(
    """
    Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid
    Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cyrillic Deseret Devanagari Dogra Duployan Elbasan
    Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew
    Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu
    Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro
    Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic
    Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri
    Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi
    """.split()  # noqa: SIM905 - a list of them would take a page
)
"""The scripts that can be named: Go drops underscores before it looks, and so finds none whose name has one (Unicode 15)."""

_LETTERS_TO_SEPARATORS = r"\pL\pM\pN\pP\pS\pZ"
_ASSIGNED = rf"{_LETTERS_TO_SEPARATORS}\p{{Cc}}\p{{Cf}}\p{{Co}}\p{{Cs}}"
_CLASSES: Final = {
    "Any": (r"\x{0}-\x{10ffff}", True),
    "Ascii": (r"\x{0}-\x{7f}", True),
    "Assigned": (_ASSIGNED, True),
    "C": (_LETTERS_TO_SEPARATORS, False),
    "Cn": (_ASSIGNED, False),
    "Lc": (r"\p{Ll}\p{Lt}\p{Lu}", True),
}
"""Classes that RE2 does not have, or has otherwise, by what is in them (or what is not)."""

_POSIX_NAMES = (
    "alnum",
    "alpha",
    "ascii",
    "blank",
    "cntrl",
    "digit",
    "graph",
    "lower",
    "print",
    "punct",
    "space",
    "upper",
)
POSIX_CLASSES: Final = frozenset(
    f"[:{sign}{name}:]" for sign in ("", "^") for name in (*_POSIX_NAMES, "word", "xdigit")
)
"""`[:alpha:]` and the like, which stand inside a class."""


def canonical_class(name: str) -> str | None:
    """The name of a class, found as Go finds it: in any case, with or without separators."""
    plain = re.sub(r"[-_ ]", "", name)
    plain = "".join(
        char if not char.isascii() else char.lower() if index else char.upper() for index, char in enumerate(plain)
    )
    if plain in _CLASSES or plain in _CATEGORIES or plain in _SCRIPTS:
        return plain
    return _CATEGORY_ALIASES.get(plain)


def class_text(name: str, *, positive: bool, inside: bool) -> str:
    """A class by its canonical name in RE2's words, `inside` another class or alone; raises `UnsupportedRegexpError`."""
    if name not in _CLASSES:
        return rf"\{'p' if positive else 'P'}{{{name}}}"
    members, holds = _CLASSES[name]
    if not inside:
        return f"[{'' if holds == positive else '^'}{members}]"
    if holds != positive:
        raise UnsupportedRegexpError(f"`{name}` inside another class of characters")
    return members
