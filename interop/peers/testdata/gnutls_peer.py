"""Echoes over libgnutls, with padded records and small fragments, which the
programs of GnuTLS cannot be made to send.

usage: gnutls_peer.py client|server PORT CA CERT KEY PRIORITY PADDING MAXSIZE
"""
import ctypes
import ctypes.util
import socket
import sys

role, port, ca, cert, key, priority, padding, max_size = sys.argv[1:]
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


if role == "server":
    listener = socket.create_server(("127.0.0.1", int(port)))
    conn, _ = listener.accept()
else:
    conn = socket.create_connection(("127.0.0.1", int(port)))

cred, session = ctypes.c_void_p(), ctypes.c_void_p()
check(lib.gnutls_certificate_allocate_credentials(ctypes.byref(cred)))
check(lib.gnutls_init(ctypes.byref(session), 1 if role == "server" else 2))
if role == "server":
    check(lib.gnutls_certificate_set_x509_key_file(cred, cert.encode(), key.encode(), 1))
else:
    check(lib.gnutls_certificate_set_x509_trust_file(cred, ca.encode(), 1))
    check(lib.gnutls_server_name_set(session, 1, b"localhost", ctypes.c_size_t(9)))
    lib.gnutls_session_set_verify_cert(session, b"localhost", 0)
check(lib.gnutls_priority_set_direct(session, priority.encode(), None))
check(lib.gnutls_credentials_set(session, 1, cred))
check(lib.gnutls_record_set_max_size(session, ctypes.c_size_t(max_size)))
lib.gnutls_transport_set_int2(session, conn.fileno(), conn.fileno())
check(lib.gnutls_handshake(session))

AGAIN, INTERRUPTED = -28, -52  # the former when a session ticket was received
LIMIT = 1 << 14  # send2 adds padding beyond this, which RFC 9846 forbids
buffer = ctypes.create_string_buffer(LIMIT)
while True:
    n = lib.gnutls_record_recv(session, buffer, ctypes.c_size_t(len(buffer)))
    if n in (AGAIN, INTERRUPTED):
        continue
    if check(n) == 0:
        break
    data = buffer.raw[:n]
    while data:
        size = min(len(data), max_size)
        pad = min(padding, LIMIT - size)
        sent = check(lib.gnutls_record_send2(
            session, data, ctypes.c_size_t(len(data)), ctypes.c_size_t(pad), 0))
        data = data[sent:]
check(lib.gnutls_bye(session, 1))
conn.close()
