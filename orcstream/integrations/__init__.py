"""What other libraries read ORC through: a module for each, which is imported by its own name.

    import orcstream.integrations.duckdb

Each needs its library, which `pip install 'orcstream[NAME]'` brings. Nothing here is imported by the package.
"""
