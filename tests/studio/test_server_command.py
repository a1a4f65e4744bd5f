"""The command serves one machine, and prints the address with its token."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest


def test_the_command_prints_an_address_that_opens_and_stops_when_asked(tmp_path):
    command = [sys.executable, "-m", "certifare", "studio", str(tmp_path)]
    environment = {**os.environ, "BROWSER": "true"}  # a program that opens nothing
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        text = "".join(lines)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{40,})", text)
        assert found, text
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = opener.open(found[0]).read().decode()
        assert "Open a table about people" in page
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
