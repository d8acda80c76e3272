"""The short forms of scripts/reliability."""

import pytest
from reliability.forms import FORMS
from reliability.world import CannotRunHere


@pytest.mark.parametrize("name", FORMS)
def test_short_form(api, name):
    run, _, short = FORMS[name]
    try:
        run(api, **short, seed=1)
    except CannotRunHere as reason:
        pytest.skip(str(reason))
