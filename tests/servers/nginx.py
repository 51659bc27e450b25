"""nginx on the loopback: with ranges and without, guarded, moved, compressed, behind a proxy, over TLS.

One folder of files is served at all locations, which do what their names say; what was asked is in the access
log. It is Debian's own build, which `make servers` unpacks, or the one on PATH.
"""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.servers.certificates import certificate
from tests.servers.processes import await_port, free_port, new_folder, start_process
from tests.support.needs import CACHE, not_here

__all__ = ["AWKWARD", "Asked", "Nginx", "nginx_server", "start_nginx"]

UNPACKED = CACHE / "nginx"
# Users' PATH does not hold what Debian puts there.
PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
# Letters that mean something in URLs, and none of it in a name.
AWKWARD = "a b%20c;ü+&=?#"
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ }}
http {{
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    default_type application/octet-stream;
    keepalive_requests 1000000;
    log_format asked escape=json '{{"connection": $connection, "location": "$location", "uri": "$uri", '
        '"range": "$http_range", "status": $status, "sent_bytes": $bytes_sent, '
        '"authorization": "$http_authorization"}}';
    map $uri $location {{ default ""; "~^/(?<first>[^/]+)/" $first; }}
    map $status $is_file {{ default 1; 299 0; }}
    access_log asked.log asked if=$is_file;
    gzip_types *;
    gzip_min_length 1;
    gzip_proxied any;

    server {{
        listen 127.0.0.1:{port};
        # In the words of the client, whose escapes must stay.
        location /moved-301/ {{ if ($request_uri ~ ^/moved-301/(.*)$) {{ return 301 /plain/$1; }} }}
        location /moved-302/ {{ if ($request_uri ~ ^/moved-302/(.*)$) {{ return 302 /basic/$1; }} }}
        location /moved-307/ {{ if ($request_uri ~ ^/moved-307/(.*)$) {{ return 307 {other}/plain/$1; }} }}
        location /moved-308/ {{ if ($request_uri ~ ^/moved-308/(.*)$) {{ return 308 /moved-308/$1; }} }}
        location /-/ {{ return 299; }}
        location /plain/ {{
            alias {folder}/files/;
            if (-f $request_filename.forbidden) {{ return 403; }}
        }}
        location "/{awkward}/" {{ alias {folder}/files/; }}
        location /whole/ {{ alias {folder}/files/; max_ranges 0; }}
        location /no-etag/ {{ alias {folder}/files/; etag off; }}
        location /no-version/ {{ alias {folder}/files/; etag off; add_header Last-Modified ""; }}
        location /gzip/ {{ alias {folder}/files/; gzip on; }}
        location /encoded/ {{ alias {folder}/files/; add_header Content-Encoding gzip; }}
        location /forbidden/ {{ deny all; }}
        location /gone/ {{ return 410; }}
        location /basic/ {{ alias {folder}/files/; auth_basic "files"; auth_basic_user_file {folder}/users; }}
        location /bearer/ {{
            if ($http_authorization != "Bearer hunter2") {{ return 401; }}
            alias {folder}/files/;
        }}
        location /weak/ {{
            proxy_pass http://127.0.0.1:{port}/plain/;
            proxy_hide_header ETag;
            add_header ETag W/$upstream_http_etag;
        }}
    }}
    # A proxy, which is told of whole URLs.
    server {{
        listen 127.0.0.1:{proxy_port};
        location / {{ proxy_pass http://$http_host$request_uri; }}
    }}
    # Only for clients that show the certificate.
    server {{
        listen 127.0.0.1:{tls_port} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        ssl_client_certificate {certificate};
        ssl_verify_client on;
        location /plain/ {{ alias {folder}/files/; }}
    }}
}}
"""


@dataclass(frozen=True)
class Asked:
    """A request as nginx has logged it; `location` is the first word of its path."""

    connection: int
    location: str
    uri: str
    range: str
    status: int
    sent_bytes: int
    authorization: str


@dataclass(frozen=True)
class Nginx:
    """What tests put there, and what was asked for."""

    folder: Path
    port: int
    proxy_port: int
    tls_port: int
    times: itertools.count[int] = field(default_factory=lambda: itertools.count(1_600_000_000))

    @property
    def certificate(self) -> Path:
        """Of the server, and what it wants its clients to show."""
        return self.folder / "certificate.pem"

    def url(self, name: str, location: str = "plain", *, origin: str = "") -> str:
        return f"{origin or f'http://127.0.0.1:{self.port}'}/{quote(location)}/{quote(name)}"

    def path(self, name: str) -> Path:
        return self.folder / "files" / name

    def put(self, name: str, data: bytes, location: str = "plain") -> str:
        """Put a file in place, as it was changed a second after any other; answers its URL."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(data)
        # Its ETags are of times in seconds, and of lengths.
        os.utime(new, (time := next(self.times), time))
        new.rename(path)
        return self.url(name, location)

    def asked(self) -> list[Asked]:
        """What was asked since the last call. One process serves all: with this answer, others are logged."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/-/")
            connection.getresponse().read()
        finally:
            connection.close()
        log = self.folder / "asked.log"
        lines = log.read_text().splitlines()
        os.truncate(log, 0)
        return [Asked(**json.loads(line)) for line in lines]


def nginx_path() -> str | None:
    """Where `make servers` puts it, or where the system has it; None where there is none."""
    unpacked = UNPACKED / "usr" / "sbin" / "nginx"
    return str(unpacked) if unpacked.exists() else shutil.which("nginx", path=PLACES)


@functools.cache
def start_nginx() -> Nginx:
    """The one nginx of this process, stopped at exit."""
    path = nginx_path()
    if path is None:
        not_here("there is no nginx: `make servers` takes it from Debian's packages")
    folder = new_folder("nginx")
    (folder / "files").mkdir()
    (folder / "users").write_text("reader:{PLAIN}hunter2\n")
    port, proxy_port, tls_port = free_port(), free_port(), free_port()
    configuration = CONFIGURATION.format(
        folder=folder,
        port=port,
        proxy_port=proxy_port,
        tls_port=tls_port,
        certificate=certificate(folder),
        awkward=AWKWARD,
        other=f"http://localhost:{port}",
    )
    (folder / "nginx.conf").write_text(configuration)
    libraries = ":".join(str(one) for one in UNPACKED.glob("**/*-linux-gnu"))
    command = [path, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
    process = start_process(command, folder, {"LD_LIBRARY_PATH": libraries} if libraries else {})
    await_port(process, port)
    return Nginx(folder, port, proxy_port, tls_port)


@pytest.fixture
def nginx_server() -> Nginx:
    """One for all; asked for by each test, so that each is told of where there is none."""
    server = start_nginx()
    server.asked()
    return server
