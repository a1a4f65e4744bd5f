"""What tests talk to: clusters (Dask, Spark), an S3 and a PostgreSQL server; one each in a process."""

import logging
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

#: Machines that live for a minute: compile quickly rather than well, and collect garbage in one thread.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of a cluster of two worker processes with one thread each."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (pip install 'certifare[dask]')")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def spark_settings(s3_server: dict[str, str]) -> Iterator[dict[str, str]]:
    """Of a session whose executor, a process of its own, reaches the S3 server; it ends with the tests."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, which Spark needs")
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    yield {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.pyspark.python": sys.executable,
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        **{f"spark.executorEnv.{name}": value for name, value in s3_server.items()},
    }
    if (session := sql.SparkSession.getActiveSession()) is not None:
        session.stop()


@pytest.fixture
def spark(spark_settings: dict[str, str]) -> Any:
    """The Spark session of all tests of this process; it starts again if one of them stopped it."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local-cluster[1,2,1024]").appName("certifare tests").config(map=spark_settings)
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def s3_server() -> Iterator[dict[str, str]]:
    """The environment of a client of an S3 server in this process, with the bucket "people"."""
    server = pytest.importorskip("moto.server", reason="moto is not installed (pip install 'moto[server]')")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "AKIAWITNESS", "AWS_SECRET_ACCESS_KEY": "do-not-show-me"}
    environment = {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        system, _ = pyarrow.fs.FileSystem.from_uri("s3://people?allow_bucket_creation=true")
        system.create_dir("people")
    yield environment
    running.stop()


@pytest.fixture
def bucket(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty folder on the S3 server, with what is needed to reach it in the environment."""
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    return f"s3://people/{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that was started for these tests, in a folder of its own."""
    binaries = _postgres_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian package postgresql)")
    # The server refuses to run as root; a path to a socket must be short.
    user = next((name for name in ("postgres", "nobody") if _exists(name)), None) if os.geteuid() == 0 else None
    if os.geteuid() == 0 and user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no other user to run it")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if user is not None:
        shutil.chown(folder, user)
    run = {"user": user, "cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
    try:
        subprocess.run([binaries / "initdb", "-D", folder / "data", "-U", "certifare", "-A", "trust", "-N"], **run)
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        server = [binaries / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w"]
        subprocess.run([*server, "-o", options, "start"], **run)
        try:
            yield f"postgresql://certifare@/postgres?host={folder}"
        finally:
            subprocess.run([*server, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _postgres_binaries() -> Path | None:
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    found += [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    return found[-1] if found else None


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
