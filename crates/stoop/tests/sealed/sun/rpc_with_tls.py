"""Another implementation of RPC-with-TLS (RFC 9289): by Python's ssl, which is OpenSSL, and RPC messages made by hand.

    rpc_with_tls.py client PORT PROGRAM ROOTS CHAIN KEY [WORD...]
    rpc_with_tls.py server PROGRAM ROOTS CHAIN KEY [WORD...]

Words: alpn=NAME, no-alpn, no-certificate, probe-inside, early (a call in the flight that ends the handshake).
The client prints a line for each answer; the server prints its port, and the name in each caller's certificate.
"""
import socket, ssl, struct, sys

AUTH_TLS, HOST = 7, "vault.example"


def words(*numbers):
    return struct.pack(">%dI" % len(numbers), *numbers)


def call(xid, program, procedure, arguments=b"", flavor=0):
    return words(xid, 0, 2, program, 1, procedure, flavor, 0, 0, 0) + arguments


def send(stream, message):
    stream.sendall(words(0x80000000 | len(message)) + message)


def exactly(stream, length):
    got = b""
    while len(got) < length:
        more = stream.recv(length - len(got))
        if not more:
            raise EOFError
        got += more
    return got


def receive(stream):
    record, last = b"", False
    while not last:
        mark = struct.unpack(">I", exactly(stream, 4))[0]
        last, length = mark >> 31, mark & 0x7FFFFFFF
        record += exactly(stream, length)
    return record


def told(reply, xid):
    """The outcome in a reply, and its results."""
    got_xid, kind, denied = struct.unpack(">3I", reply[:12])
    assert (got_xid, kind) == (xid, 1), reply
    if denied:
        return "denied %d %d" % struct.unpack(">2I", reply[12:20]), b""
    flavor, length = struct.unpack(">2I", reply[12:20])
    verifier, rest = reply[20:20 + length], reply[20 + length:]
    status = struct.unpack(">I", rest[:4])[0]
    return "accepted %d %d %s" % (flavor, status, verifier.decode() or "-"), rest[4:]


def context(side, roots, chain, key, options):
    made = ssl.SSLContext(side)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_verify_locations(roots)
    if "no-certificate" not in options:
        made.load_cert_chain(chain, key)
    made.verify_mode = ssl.CERT_REQUIRED
    alpn = [option[5:] for option in options if option.startswith("alpn=")] or ["sunrpc"]
    if "no-alpn" not in options:
        made.set_alpn_protocols(alpn)
    return made


def client(port, program, roots, chain, key, *options):
    plain = socket.create_connection(("127.0.0.1", int(port)))
    plain.settimeout(30)
    program = int(program)
    send(plain, call(1, program, 0, flavor=AUTH_TLS))
    print("probe:", told(receive(plain), 1)[0], flush=True)
    made = context(ssl.PROTOCOL_TLS_CLIENT, roots, chain, key, options)
    try:
        if "early" in options:
            return early(plain, made, program)
        stream = made.wrap_socket(plain, server_hostname=HOST)
        print("session:", stream.version(), stream.selected_alpn_protocol(), flush=True)
        if "probe-inside" in options:
            send(stream, call(2, program, 0, flavor=AUTH_TLS))
            print("second probe:", told(receive(stream), 2)[0], flush=True)
        for xid, amount in enumerate([5, 7], 3):
            send(stream, call(xid, program, 1, words(amount)))
            outcome, results = told(receive(stream), xid)
            print("add:", outcome, *struct.unpack(">%dI" % (len(results) // 4), results), flush=True)
        data = bytes(range(256)) * 1000
        send(stream, call(9, program, 3, words(len(data)) + data))
        outcome, results = told(receive(stream), 9)
        print("echo:", outcome, results == words(len(data)) + data, flush=True)
        send(stream, call(10, program, 2))
        outcome, results = told(receive(stream), 10)
        print("caller:", outcome, results[4:].rstrip(b"\0").decode(), flush=True)
    except (ssl.SSLError, EOFError, ConnectionError) as why:
        print("failed:", str(why) or type(why).__name__, flush=True)


def early(plain, made, program):
    """Calls in the same segment as the end of the handshake, in many small records."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = made.wrap_bio(incoming, outgoing, server_hostname=HOST)
    while True:
        try:
            ends.do_handshake()
            break
        except ssl.SSLWantReadError:
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
    for xid in range(20, 60):
        message = call(xid, program, 1, words(1))
        record = words(0x80000000 | len(message)) + message
        for at in range(0, len(record), 7):
            ends.write(record[at:at + 7])
    plain.sendall(outgoing.read())
    got = b""
    while len(got) < 40 * 32:
        try:
            got += ends.read(65536)
        except ssl.SSLWantReadError:
            more = plain.recv(65536)
            if not more:
                raise EOFError
            incoming.write(more)
    print("answers:", len(got) // 32, flush=True)


def server(program, roots, chain, key, *options):
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    made = context(ssl.PROTOCOL_TLS_SERVER, roots, chain, key, options)
    while True:
        plain, _ = listener.accept()
        try:
            serve(plain, made)
        except (ssl.SSLError, EOFError, ConnectionError) as why:
            print("failed:", str(why) or type(why).__name__, flush=True)


def serve(plain, made):
    probe = receive(plain)
    assert probe[4:] == call(0, *struct.unpack(">I", probe[12:16]), 0, flavor=AUTH_TLS)[4:], probe
    send(plain, probe[:4] + words(1, 0, 0, 8) + b"STARTTLS" + words(0))
    stream = made.wrap_socket(plain, server_side=True)
    names = [name for _, name in stream.getpeercert().get("subjectAltName", ())]
    print("caller:", *names, stream.selected_alpn_protocol(), flush=True)
    total = 0
    while True:
        asked = receive(stream)
        procedure, results = struct.unpack(">I", asked[20:24])[0], b""
        if procedure == 1:
            total += struct.unpack(">I", asked[40:44])[0]
            results = words(total)
        elif procedure == 3:
            results = asked[40:]
        send(stream, asked[:4] + words(1, 0, 0, 0, 0) + results)


{"client": client, "server": server}[sys.argv[1]](*sys.argv[2:])
