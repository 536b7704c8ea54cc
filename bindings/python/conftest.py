"""Fixtures for the tests here and for the examples inside the installed package."""

pytest_plugins = ["shared_fixtures"]
