"""A page for people who do not program: from a file to a signed certificate, in a browser on the same machine.

The server calls the rest of the library and computes nothing of its own: :mod:`~certifare.studio.projects` holds the
state of one window, :mod:`~certifare.studio.server` answers its requests, :mod:`~certifare.studio.guard` refuses all
others. Exploring uses training and select records alone; issuing a certificate is :func:`certifare.produce`.
"""
