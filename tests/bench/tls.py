"""The rows of TLS on both sides: against HAProxy, which takes TLS off and puts it on again."""

import contextlib
import resource

from bench.arms import UNRULED, HAProxy, Load, PinnedSpillway, Slices, Stub, interleave, memory
from bench.table import Row
from support.certificates import Authority
from support.spillway import QuotedText

NAME = "db.example.net"
SPARE = 60  # descriptors of a proxy that belong to no connection


class Papers:
    """The certificates of all arms."""

    def __init__(self, authority):
        self.ca = authority.ca
        self.server = authority.sign("server", f"IP:127.0.0.1,DNS:{NAME}")
        self.client = authority.sign("client", "DNS:client.example.net")


class TlsStub(Stub):
    """Wants a certificate of its clients, as mongod with a CA file."""

    def __init__(self, papers):
        super().__init__()
        self.papers = papers
        self.command += [str(papers.server[2]), str(papers.ca)]


class TlsHAProxy(HAProxy):
    CONFIGURATION = """
global
    nbthread 1
    maxconn {most}
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen bench
    bind 127.0.0.1:{port} ssl crt {cert}
    server stub 127.0.0.1:{server} ssl verify required ca-file {ca} crt {own} sni str({name}) verifyhost {name}
"""

    def more(self, server):
        papers = server.papers
        return {"most": connections_at_most(), "cert": papers.server[2], "ca": papers.ca,
                "own": papers.client[2], "name": NAME}


class TlsSpillway(PinnedSpillway):
    def __init__(self, server, wrapped=()):
        super().__init__(server, wrapped)
        self.secure_clients(server.papers)
        cert, key, both = server.papers.client
        self.settings["servers"] = {"tls": {
            "ca": server.papers.ca, "cert": cert, "key": key, "server_name": NAME}}
        self.settings["upstream"] = {"uri": f"mongodb://{server.address}/?tls=true&tlsCAFile={server.papers.ca}"
                                            f"&tlsCertificateKeyFile={both}"}

    def secure_clients(self, papers):
        cert, key, _ = papers.server
        self.settings["listen"][0]["tls"] = {
            "cert": cert, "key": key, "ca": papers.ca, "client_cert": "none", "min_version": QuotedText("1.2")}


def to_clients_only(papers):
    """Spillway with TLS to its clients alone, before a plain server."""
    class Front(PinnedSpillway):
        def __init__(self, server, wrapped=()):
            super().__init__(server, wrapped)
            TlsSpillway.secure_clients(self, papers)

    return Front


PROXIES = {"haproxy": TlsHAProxy, "spillway": TlsSpillway}


def connections_at_most():
    """So many connections have two descriptors each in a proxy, and 9,900 are enough."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min((soft - SPARE) // 2, 9_960)


@contextlib.contextmanager
def new_papers():
    with Authority("bench") as authority:
        yield Papers(authority)


def side_by_side(scale, **load):
    with new_papers() as papers, contextlib.ExitStack() as stack:
        stub = stack.enter_context(TlsStub(papers))
        loads = {
            name: stack.enter_context(Load(stack.enter_context(kind(stub)).port, ca=papers.ca, **load))
            for name, kind in PROXIES.items()
        }
        return Slices(interleave(loads, scale.rounds, scale.seconds), reference="haproxy")


def throughput(scale):
    slices = side_by_side(scale, connections=16, collection=UNRULED)
    return [Row("TLS on both sides: throughput at 16 connections / HAProxy",
                slices.ratio("spillway", "haproxy", "per_second"), at_least=1.0,
                detail=slices.detail("per_second"))]


def latency(scale):
    slices = side_by_side(scale, connections=1, collection=UNRULED)
    return [Row("TLS on both sides: p50 at one connection / HAProxy",
                slices.ratio("spillway", "haproxy", "p50_us"), at_most=1.0,
                detail=slices.detail("p50_us", "p99_us"))]


def handshakes(scale):
    rows = []
    for kind in ("full", "resumed"):
        slices = side_by_side(scale, name="handshakes", kind=kind)
        rows.append(Row(f"TLS on both sides: {kind} handshakes a second / HAProxy",
                        slices.ratio("spillway", "haproxy", "per_second"), at_least=0.9,
                        detail=slices.detail("per_second")))
    return rows


def idle_size(kind, stub, count, **load):
    """KiB of an idle connection through this proxy."""
    with stub as server, kind(server) as proxy, Load(proxy.port, **load) as one:
        one.count(100)
        before = memory(proxy.pid, "Private_Dirty")
        with Load(proxy.port, connections=count, **load) as many:
            many.count(2 * count)
            return (memory(proxy.pid, "Private_Dirty") - before) / count


def idle_memory(scale):
    count = min(scale.idle_tls, connections_at_most() - SPARE)
    with new_papers() as papers:
        sizes = {
            "plain": idle_size(PinnedSpillway, Stub(), count),
            "TLS to clients": idle_size(to_clients_only(papers), Stub(), count, ca=papers.ca),
        } | {
            f"TLS on both sides, {name}": idle_size(kind, TlsStub(papers), count, ca=papers.ca)
            for name, kind in PROXIES.items()
        }
    return [
        Row(f"Private_Dirty of an idle connection, KiB ({count:,} connections): plain",
            sizes["plain"], at_most=1.0, detail=sizes),
        Row("the same: TLS to clients", sizes["TLS to clients"], at_most=16.0),
        Row("the same: TLS on both sides", sizes["TLS on both sides, spillway"], at_most=16.0),
    ]
