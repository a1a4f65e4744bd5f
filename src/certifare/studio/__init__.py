"""A page for people who do not program: from a file to a signed certificate, in a browser on the same machine.

It calls the rest of the library and computes nothing of its own: :mod:`~certifare.studio.projects` has the state of a
window, :mod:`~certifare.studio.server` answers its requests, :mod:`~certifare.studio.guard` refuses all others.
"""
