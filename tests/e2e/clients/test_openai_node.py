"""OpenAI's package of npm against the gateway; what it does is in openai_cases.mjs."""

from packages import HERE, node_packages, run_cases


def test_openai_node(openai_addresses):
    run_cases(["node", "--test", HERE / "openai_cases.mjs"], TVQ_NODE_PACKAGES=str(node_packages()),
              **openai_addresses)
