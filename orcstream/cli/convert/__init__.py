"""The command `orcstream convert`, and the formats that it reads."""
