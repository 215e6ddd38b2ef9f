"""A provider with TLS: a certificate of its own, and nginx before the mock.

The certificate is made for the run, with the `openssl` command. Without both programs there is no such provider: the
scenario is left out, and the reason is shown.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.process import BenchError, Process, free_port
from bench.system import Setting, nginx_program, write_config


class NoTls(BenchError):
    """What it takes is not installed."""


@contextmanager
def tls_provider(setting: Setting, core: int) -> Iterator[Setting]:
    """The setting of a system whose provider has TLS."""
    folder = setting.folder / "tls"
    folder.mkdir(parents=True, exist_ok=True)
    program = nginx_program()
    if program is None:
        raise NoTls("nginx is not installed, which gives the mock its TLS")
    certificate, private_key = make_certificate(folder)
    port = free_port()
    more = {"certificate": certificate, "private_key": private_key}
    config = write_config("tls.conf", replace(setting, folder=folder), port, more)
    process = Process([program, "-c", str(config), "-p", str(folder)], {core}, folder / "tls.log")
    try:
        process.wait_for_port(port)
        yield replace(setting, upstream_port=port, ca_file=certificate)
    finally:
        process.stop()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    program = shutil.which("openssl")
    if program is None:
        raise NoTls("openssl is not installed, which makes the certificate")
    certificate, private_key = folder / "certificate.pem", folder / "key.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    whose = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(private_key), "-out", str(certificate)]
    command = [program, "req", "-x509", *kind, *whose, *files]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        raise NoTls(f"openssl made no certificate: {result.stderr.strip()[-200:]}")
    return certificate, private_key
