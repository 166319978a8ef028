// Echo on Node's loop.
const server = require('net').createServer({ noDelay: true }, (socket) => {
  socket.on('data', (data) => socket.write(data));
  socket.on('error', () => socket.destroy());
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () =>
  console.log(server.address().port));
