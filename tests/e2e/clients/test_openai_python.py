"""OpenAI's package of PyPI against the gateway; what it does is in openai_cases.py."""

from packages import HERE, python_with_openai, run_cases


def test_openai_python(openai_addresses):
    run_cases([python_with_openai(), "-m", "unittest", "openai_cases"], PYTHONPATH=str(HERE), **openai_addresses)
