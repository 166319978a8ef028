//! Connections that live for one request: connect, send, receive the reply, close, and the next one.
//!
//! With `--busy` others echo beside them all the time, so that accepting competes with work. With
//! `--reset` nine of ten are reset before their reply could come; the tenth keeps the pace.

use crate::Failure;
use crate::dialogue::Dialogue;
use crate::latency::Latency;
use crate::options::Options;
use crate::report::Meter;
use crate::socket::{PATIENCE, Socket, broken, no_reply};
use crate::steady::Client;
use crate::sys::{self, Epoll};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// How many connections are reset before one gets its reply.
const RESETS: usize = 9;

/// A slot for one connection after the other, or for one that stays busy.
struct Place {
    client: Client,
    busy: bool,
}

struct Churn<'a> {
    options: &'a Options,
    epoll: Epoll,
    places: Vec<Place>,
    opened: u64,
    latency: Latency,
}

/// The mode churn: how many connections per second.
pub fn run(options: &Options) -> Result<String, Failure> {
    let mut churn = Churn {
        options,
        epoll: Epoll::new()?,
        places: Vec::new(),
        opened: 0,
        latency: Latency::new(),
    };
    for token in 0..options.connections + options.busy {
        let client = churn.open(token)?;
        churn.places.push(Place {
            client,
            busy: token < options.busy,
        });
    }
    churn.run_until(Instant::now() + options.warmup)?;
    churn.latency.clear();
    churn.opened = 0;
    let meter = Meter::start(options.pid)?;
    churn.run_until(Instant::now() + options.span)?;
    let line = meter.finish(churn.opened, &churn.latency, 1.0)?;
    churn.finish()?;
    Ok(line)
}

impl Churn<'_> {
    /// A connection with its request sent. Connecting blocks: on one machine it takes no time.
    fn open(&mut self, token: usize) -> Result<Client, Failure> {
        let now = Instant::now();
        if self.options.reset {
            for number in 0..RESETS {
                self.open_and_reset(number)?;
            }
        }
        let socket = Socket::connect(&self.options.address)?;
        let fd = socket.as_raw_fd();
        let mut client = Client::new(socket, Dialogue::echo(self.options.size, token)?);
        client.ask(now)?;
        self.epoll.add(fd, token as u64)?;
        self.opened += 1;
        Ok(client)
    }

    fn open_and_reset(&mut self, number: usize) -> Result<(), Failure> {
        let mut socket = Socket::connect(&self.options.address)?;
        let dialogue = Dialogue::echo(self.options.size, number)?;
        socket
            .write_all(dialogue.request())
            .map_err(|error| broken(&error))?;
        sys::reset_on_close(socket.as_raw_fd());
        self.opened += 1;
        Ok(())
    }

    fn run_until(&mut self, end: Instant) -> Result<(), Failure> {
        let mut events = Vec::new();
        while self.opened == 0 || Instant::now() < end {
            self.epoll.wait(&mut events, PATIENCE)?;
            if events.is_empty() {
                return Err(no_reply());
            }
            for event in &events {
                let token = usize::try_from(event.token).unwrap_or(0);
                let place = &mut self.places[token];
                let Some(taken) = place.client.read()? else {
                    continue;
                };
                if place.busy {
                    place.client.ask(Instant::now())?;
                } else {
                    self.latency.add(taken);
                    // The old connection closes here, and with it leaves the set.
                    self.places[token].client = self.open(token)?;
                }
            }
        }
        Ok(())
    }

    /// Requests in flight get their replies, so that closing resets no connection.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut events = Vec::new();
        let mut left = self.places.len();
        while left > 0 {
            self.epoll.wait(&mut events, PATIENCE)?;
            if events.is_empty() {
                return Err(no_reply());
            }
            for event in &events {
                let token = usize::try_from(event.token).unwrap_or(0);
                if self.places[token].client.read()?.is_some() {
                    left -= 1;
                }
            }
        }
        Ok(())
    }
}
