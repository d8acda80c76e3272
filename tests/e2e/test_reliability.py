"""The short forms of scripts/reliability."""

import pytest
from reliability.disturbance import NoSmallDisk
from reliability.forms import FORMS


@pytest.mark.parametrize("name", FORMS)
def test_short_form(api, name):
    run, _, short = FORMS[name]
    try:
        run(api, **short, seed=1)
    except NoSmallDisk as reason:
        pytest.skip(str(reason))
