"""Echoes over Python's ssl, or closes first, or echoes over two connections, the
second one resumed.

usage: peer.py client|server PORT CA CERT KEY echo|close|resume
"""
import socket
import ssl
import sys

role, port, ca, cert, key, mode = sys.argv[1:]
if role == "server":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
else:
    context = ssl.create_default_context(cafile=ca)
context.minimum_version = ssl.TLSVersion.TLSv1_3
# Some builds set this, and then an end without close_notify looks like one with it.
context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)


def serve(session=None):
    if role == "server":
        raw, _ = listener.accept()
    else:
        raw = socket.create_connection(("127.0.0.1", int(port)))
    conn = context.wrap_socket(
        raw,
        server_side=role == "server",
        server_hostname=None if role == "server" else "localhost",
        suppress_ragged_eofs=False,
        session=session,
    )
    if mode == "close":
        conn.sendall(b"bye")
    else:
        try:
            while data := conn.recv(1 << 16):
                conn.sendall(data)
        except ssl.SSLError as err:
            # Older versions have no SSLEOFError for what OpenSSL 3 says.
            if not isinstance(err, ssl.SSLEOFError) and err.reason != "UNEXPECTED_EOF_WHILE_READING":
                raise
            sys.exit("truncated")
    session = conn.session if role == "client" else None
    conn.unwrap()
    conn.close()
    return session


if role == "server":
    listener = socket.create_server(("127.0.0.1", int(port)))
session = serve()
if mode == "resume":
    serve(session)
