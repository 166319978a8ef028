//! Connections that send a request, wait for the reply and send the next, as fast as the server
//! allows.

use crate::Failure;
use crate::dialogue::Dialogue;
use crate::latency::Latency;
use crate::options::Options;
use crate::report::Meter;
use crate::socket::{PATIENCE, Socket, broken, ended, no_reply};
use crate::sys::Epoll;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// One connection and its request in flight.
pub struct Client {
    socket: Socket,
    dialogue: Dialogue,
    began: Instant,
    sent: usize,
    received: usize,
    incoming: Vec<u8>,
    waits_to_write: bool,
    answered: u64,
}

impl Client {
    pub fn new(socket: Socket, dialogue: Dialogue) -> Self {
        Self {
            incoming: vec![0; dialogue.room()],
            socket,
            dialogue,
            began: Instant::now(),
            sent: 0,
            received: 0,
            waits_to_write: false,
            answered: 0,
        }
    }

    /// The next request.
    pub fn ask(&mut self, now: Instant) -> Result<(), Failure> {
        self.dialogue.advance();
        self.began = now;
        self.sent = 0;
        self.received = 0;
        self.write()
    }

    /// Sends what is left of the request, as much as goes.
    pub fn write(&mut self) -> Result<(), Failure> {
        while self.sent < self.dialogue.request().len() {
            match self.socket.write(&self.dialogue.request()[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(())
    }

    /// Reads once; returns how long the reply took, if it is complete.
    pub fn read(&mut self) -> Result<Option<Duration>, Failure> {
        match self.socket.read(&mut self.incoming[self.received..]) {
            Ok(0) => return Err(ended()),
            Ok(count) => self.received += count,
            Err(error) => return Err(broken(&error)),
        }
        if !self.dialogue.is_complete(&self.incoming[..self.received])? {
            if self.received == self.incoming.len() {
                return Err("the reply is too long".into());
            }
            return Ok(None);
        }
        if self.sent < self.dialogue.request().len() {
            return Err("the reply came before the request was sent".into());
        }
        self.answered += 1;
        Ok(Some(self.began.elapsed()))
    }
}

/// Many clients in one epoll set.
pub struct Crowd {
    pub clients: Vec<Client>,
    epoll: Epoll,
    pub latency: Latency,
}

impl Crowd {
    pub fn new(clients: Vec<Client>) -> Result<Self, Failure> {
        let epoll = Epoll::new()?;
        for (token, client) in clients.iter().enumerate() {
            client.socket.set_nonblocking()?;
            epoll.add(client.socket.as_raw_fd(), token as u64)?;
        }
        Ok(Self {
            clients,
            epoll,
            latency: Latency::new(),
        })
    }

    /// All connections send a request.
    pub fn ask_all(&mut self) -> Result<(), Failure> {
        for token in 0..self.clients.len() {
            self.clients[token].ask(Instant::now())?;
            self.follow_writing(token)?;
        }
        Ok(())
    }

    /// Answers are taken, and followed by the next request, until `end`, but at least one; without
    /// an end every client has its reply once. How many there were.
    pub fn run(&mut self, end: Option<Instant>) -> Result<u64, Failure> {
        let mut events = Vec::new();
        let mut count = 0;
        let all = self.clients.len() as u64;
        while end.map_or(count < all, |end| count == 0 || Instant::now() < end) {
            self.epoll.wait(&mut events, PATIENCE)?;
            if events.is_empty() {
                return Err(no_reply());
            }
            for event in &events {
                let token = usize::try_from(event.token).unwrap_or(0);
                let client = &mut self.clients[token];
                if event.writable {
                    client.write()?;
                }
                let taken = if event.readable { client.read()? } else { None };
                if let Some(taken) = taken {
                    self.latency.add(taken);
                    count += 1;
                    if end.is_some() {
                        client.ask(Instant::now())?;
                    }
                }
                self.follow_writing(token)?;
            }
        }
        Ok(count)
    }

    fn follow_writing(&mut self, token: usize) -> Result<(), Failure> {
        let client = &mut self.clients[token];
        let waits = client.sent < client.dialogue.request().len();
        if waits != client.waits_to_write {
            client.waits_to_write = waits;
            self.epoll
                .watch_writing(client.socket.as_raw_fd(), token as u64, waits)?;
        }
        Ok(())
    }

    /// The slowest connection's share of the fastest one's replies.
    fn evenness(&self) -> f64 {
        let counts = || self.clients.iter().map(|client| client.answered);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        #[allow(clippy::cast_precision_loss)] // of counts far below 2^52
        let share = least as f64 / most.max(1) as f64;
        share
    }
}

/// The modes echo, http and websocket.
pub fn run(mode: &str, options: &Options) -> Result<String, Failure> {
    let idle: Vec<_> = (0..options.idle)
        .map(|_| Socket::connect(&options.address))
        .collect::<Result<_, _>>()?;
    let mut clients = (0..options.connections)
        .map(|number| connect(mode, number, options))
        .collect::<Result<Vec<_>, _>>()?;
    let line = if clients.len() == 1 {
        run_alone(&mut clients[0], options)?
    } else {
        run_crowd(clients, options)?
    };
    drop(idle);
    Ok(line)
}

fn connect(mode: &str, number: usize, options: &Options) -> Result<Client, Failure> {
    let dialogue = match mode {
        "echo" => Dialogue::echo(options.size, number)?,
        "http" => Dialogue::http(&options.path, &options.body, &options.expect),
        "websocket" => Dialogue::websocket(options.size, number)?,
        _ => return Err(format!("no such mode: {mode}")),
    };
    let mut socket = Socket::connect(&options.address)?;
    dialogue.greet(&mut socket, &options.path)?;
    Ok(Client::new(socket, dialogue))
}

fn run_crowd(clients: Vec<Client>, options: &Options) -> Result<String, Failure> {
    let mut crowd = Crowd::new(clients)?;
    // Once each: from here on all are accepted.
    crowd.ask_all()?;
    crowd.run(None)?;
    crowd.ask_all()?;
    crowd.run(Some(Instant::now() + options.warmup))?;
    crowd.latency.clear();
    for client in &mut crowd.clients {
        client.answered = 0;
    }
    let meter = Meter::start(options.pid)?;
    let count = crowd.run(Some(Instant::now() + options.span))?;
    let line = meter.finish(count, &crowd.latency, crowd.evenness())?;
    // Requests in flight get their replies: all are counted, and no connection is reset.
    crowd.run(None)?;
    Ok(line)
}

/// One connection blocks in `read`: an epoll call for every reply would only slow the client.
fn run_alone(client: &mut Client, options: &Options) -> Result<String, Failure> {
    let mut latency = Latency::new();
    ask_until(client, Instant::now() + options.warmup, &mut latency)?;
    latency.clear();
    let meter = Meter::start(options.pid)?;
    let count = ask_until(client, Instant::now() + options.span, &mut latency)?;
    meter.finish(count, &latency, 1.0)
}

fn ask_until(client: &mut Client, end: Instant, latency: &mut Latency) -> Result<u64, Failure> {
    let mut count = 0;
    let mut now = Instant::now();
    while count == 0 || now < end {
        client.ask(now)?;
        loop {
            if let Some(taken) = client.read()? {
                latency.add(taken);
                now += taken;
                break;
            }
        }
        count += 1;
    }
    Ok(count)
}
