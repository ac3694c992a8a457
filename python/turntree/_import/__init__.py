"""Conversations of other packages, imported into a store.

`formats` finds out what a source is and opens it. Each format has a module that yields `SourceSession` objects:
`langgraph`, `openai_agents` and `pydantic_ai`. `conversation` builds the tree of a session, `importer` stores it.
"""
