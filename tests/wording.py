"""The check of the tables of messages, one in the `test_wording.py` of each package."""

import warnings


def check(kind: type[Warning] | type[Exception], provoke, message: str) -> None:
    """Fail unless ``provoke()`` raises ``kind``, or warns of it, with exactly this message."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            provoke()
        except Exception as error:
            said = [(type(error), str(error))]
        else:
            said = [(warning.category, str(warning.message)) for warning in warned]
    assert said == [(kind, message)]
