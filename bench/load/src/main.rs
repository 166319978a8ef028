//! The load of the benchmarks: a client that needs so little CPU time that the server is measured.
//!
//! ```text
//! bench-load echo      --to tcp:127.0.0.1:PORT --connections 10 --size 1024 --seconds 1
//! bench-load http      --to ... --path /hello --expect '{"hello":"world"}'
//! bench-load websocket --to ... --path /echo --size 128
//! bench-load churn     --to ... --connections 10 --size 1024 [--busy 100] [--reset]
//! bench-load serve     --at tcp:127.0.0.1:0
//! bench-load wakes     --seconds 1
//! ```
//!
//! Addresses are `tcp:host:port`, `udp:host:port` or `unix:path`. Every reply is compared with
//! what it should be; the first wrong one ends the run with exit code 1 and a sentence on stderr.
//! The last line on stdout is the result, as JSON. `--pid` names the server, whose CPU time is
//! then part of it.
//!
//! | module | idea |
//! |---|---|
//! | `churn` | connections that live for one request |
//! | `dialogue` | requests, and which replies are right: echo, HTTP, websocket |
//! | `latency` | a histogram |
//! | `options` | the command line |
//! | `report` | the JSON line |
//! | `serve` | the bare echo server |
//! | `socket` | connecting, by kind of address |
//! | `steady` | connections that send requests repeatedly |
//! | `sys` | epoll and clocks |
//! | `wakes` | two threads that wake each other |
#![deny(unsafe_code)] // allowed in `sys` only

mod churn;
mod dialogue;
mod latency;
mod options;
mod report;
mod serve;
mod socket;
mod steady;
mod sys;
mod wakes;

use options::Options;
use std::process::ExitCode;

/// An error, as a sentence for the user of the benchmark.
type Failure = String;

fn main() -> ExitCode {
    match run() {
        Ok(result) => {
            if let Some(line) = result {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("bench-load: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Option<String>, Failure> {
    let (mode, options) = Options::read(std::env::args().skip(1))?;
    sys::allow_many_fds();
    match mode.as_str() {
        "churn" => churn::run(&options).map(Some),
        "serve" => serve::run(&options).map(|()| None),
        "wakes" => wakes::run(&options).map(Some),
        _ => steady::run(&mode, &options).map(Some),
    }
}
