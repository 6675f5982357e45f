// Echoes over Node's tls, or closes first when something has come, or echoes over
// two connections, the second one resumed.
//
// usage: node peer.js client|server PORT CA CERT KEY SUITE FRAGMENT echo|close|resume
'use strict';
const fs = require('fs');
const tls = require('tls');

const [role, port, ca, cert, key, suite, fragment, mode] = process.argv.slice(2);

let connections = mode === 'resume' ? 2 : 1;
let session;

function serve(socket) {
  if (fragment !== '0') socket.setMaxSendFragment(Number(fragment));
  socket.on('error', (err) => { console.error(String(err)); process.exit(1); });
  if (mode === 'close') {
    // At once, a server's end is not followed by close_notify.
    socket.once('data', () => socket.end('bye'));
  } else {
    socket.pipe(socket);
  }
  socket.on('close', () => {
    if (--connections === 0) process.exit(0);
    if (role === 'client') connect();
  });
}

function connect() {
  const socket = tls.connect({ ...options, session }, () => serve(socket));
  socket.on('session', (s) => { session = s; });
}

const options = { ciphers: suite, minVersion: 'TLSv1.3' };
if (role === 'server') {
  Object.assign(options, { cert: fs.readFileSync(cert), key: fs.readFileSync(key) });
  tls.createServer(options, serve).listen(Number(port), '127.0.0.1');
} else {
  Object.assign(options, { ca: fs.readFileSync(ca), host: '127.0.0.1', port: Number(port), servername: 'localhost' });
  connect();
}
