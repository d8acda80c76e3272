"""setuptools, and protoc from PyPI where the system has none."""

from setuptools.build_meta import *  # noqa: F403

import stubs


def get_requires_for_build_wheel(config_settings=None):
    return _needed()


def get_requires_for_build_sdist(config_settings=None):
    return _needed()


def get_requires_for_build_editable(config_settings=None):
    return _needed()


def _needed():
    # Not setuptools' own answer, which it finds by running setup.py, which needs protoc.
    return [] if stubs.protoc() else ["grpcio-tools"]
