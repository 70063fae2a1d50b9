"""Connecting to an address does not loosen TLS: the certificate is checked against the name."""

from __future__ import annotations

import asyncio
import datetime
import functools
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.web import response

from dsh_tools.kernel import NEVER
from dsh_tools.toolkits.web import WebConfig
from dsh_tools.toolkits.web import fetcher as fetcher_module
from dsh_tools.toolkits.web.addresses import resolve
from dsh_tools.toolkits.web.errors import FetchFailedError


def certificate(folder: Path, name: str) -> Path:
    """A certificate for one name, signed by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "cert.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


async def test_the_certificate_is_that_of_the_name(no_leaks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = certificate(tmp_path, "good.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(path)
    names: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response(b"secret", kind="text/plain"))
        await writer.drain()
        writer.close()

    async def here(host: str, port: int, allowed: Any) -> str:
        return await resolve("127.0.0.1", port, None)

    trusting = functools.partial(httpx.AsyncClient, verify=ssl.create_default_context(cafile=str(path)))
    monkeypatch.setattr(fetcher_module.httpx, "AsyncClient", trusting)
    monkeypatch.setattr(fetcher_module, "resolve", here)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    fetcher = fetcher_module.HttpFetcher(WebConfig())
    try:
        page = await fetcher.fetch(f"https://good.test:{port}/", signal=NEVER)
        assert page.body == b"secret"
        with pytest.raises(FetchFailedError, match="(?i)hostname mismatch"):
            await fetcher.fetch(f"https://evil.test:{port}/", signal=NEVER)
    finally:
        server.close()
        await server.wait_closed()
    assert names == ["good.test", "evil.test"]
