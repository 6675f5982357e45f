"""Echoes over libgnutls, with padded records and small fragments, which the
programs of GnuTLS cannot be made to send.

usage: gnutls_peer.py client|server PORT CA CERT KEY PRIORITY PADDING MAXSIZE echo|update|close|resume

With update it sends a KeyUpdate before each echo, and requests one back every
other time, the first time too. With close it says bye when something has come, and
closes first. With resume it echoes over two connections, the second one resumed.
"""
import ctypes
import ctypes.util
import socket
import sys

role, port, ca, cert, key, priority, padding, max_size, mode = sys.argv[1:]
padding, max_size = int(padding), int(max_size)
lib = ctypes.CDLL(ctypes.util.find_library("gnutls") or "libgnutls.so.30")
lib.gnutls_check_version.restype = ctypes.c_char_p
lib.gnutls_record_recv.restype = ctypes.c_ssize_t
lib.gnutls_record_send2.restype = ctypes.c_ssize_t
lib.gnutls_strerror.restype = ctypes.c_char_p


def check(result):
    if result < 0:
        sys.exit("libgnutls: " + lib.gnutls_strerror(ctypes.c_int(result)).decode())
    return result


SERVER, CLIENT = 1, 2  # gnutls_init's flags
CERTIFICATE = 1  # gnutls_credentials_set's kind, and the PEM format
REQUEST_UPDATE = 1  # GNUTLS_KU_PEER
SHUT_RDWR, SHUT_WR = 0, 1
AGAIN, INTERRUPTED = -28, -52  # the former when a session ticket was received
TICKET = 1 << 7  # GNUTLS_SFLAGS_SESSION_TICKET
LIMIT = 1 << 14  # send2 adds padding beyond this, which RFC 9846 forbids


class Datum(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint)]


def receive(session):
    buffer = ctypes.create_string_buffer(LIMIT)
    while True:
        n = lib.gnutls_record_recv(session, buffer, ctypes.c_size_t(len(buffer)))
        if n not in (AGAIN, INTERRUPTED):
            return buffer.raw[:check(n)]


def send(session, data):
    while data:
        size = min(len(data), max_size)
        pad = min(padding, LIMIT - size)
        sent = check(lib.gnutls_record_send2(
            session, data, ctypes.c_size_t(len(data)), ctypes.c_size_t(pad), 0))
        data = data[sent:]


def connect(conn):
    session = ctypes.c_void_p()
    check(lib.gnutls_init(ctypes.byref(session), SERVER if role == "server" else CLIENT))
    if role == "server":
        check(lib.gnutls_session_ticket_enable_server(session, ctypes.byref(ticket_key)))
    else:
        check(lib.gnutls_server_name_set(session, 1, b"localhost", ctypes.c_size_t(9)))
        lib.gnutls_session_set_verify_cert(session, b"localhost", 0)
    check(lib.gnutls_priority_set_direct(session, priority.encode(), None))
    check(lib.gnutls_credentials_set(session, CERTIFICATE, cred))
    check(lib.gnutls_record_set_max_size(session, ctypes.c_size_t(max_size)))
    if saved.data:
        check(lib.gnutls_session_set_data(session, ctypes.c_void_p(saved.data), ctypes.c_size_t(saved.size)))
    lib.gnutls_transport_set_int2(session, conn.fileno(), conn.fileno())
    check(lib.gnutls_handshake(session))
    return session


def serve(session):
    if mode == "close":
        receive(session)
        send(session, b"bye")
        check(lib.gnutls_bye(session, SHUT_RDWR))
        return
    count = 0
    while data := receive(session):
        if mode == "update":
            check(lib.gnutls_session_key_update(session, 0 if count % 2 else REQUEST_UPDATE))
            count += 1
        send(session, data)
    if mode == "resume" and role == "client":
        if not lib.gnutls_session_get_flags(session) & TICKET:
            sys.exit("no ticket came")
        check(lib.gnutls_session_get_data2(session, ctypes.byref(saved)))
    check(lib.gnutls_bye(session, SHUT_WR))


cred, ticket_key, saved = ctypes.c_void_p(), Datum(), Datum()
check(lib.gnutls_certificate_allocate_credentials(ctypes.byref(cred)))
if role == "server":
    check(lib.gnutls_certificate_set_x509_key_file(cred, cert.encode(), key.encode(), CERTIFICATE))
    check(lib.gnutls_session_ticket_key_generate(ctypes.byref(ticket_key)))
    listener = socket.create_server(("127.0.0.1", int(port)))
else:
    check(lib.gnutls_certificate_set_x509_trust_file(cred, ca.encode(), CERTIFICATE))
for _ in range(2 if mode == "resume" else 1):
    if role == "server":
        conn, _ = listener.accept()
    else:
        conn = socket.create_connection(("127.0.0.1", int(port)))
    serve(connect(conn))
    conn.close()
